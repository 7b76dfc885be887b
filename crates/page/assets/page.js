// Keeps an open page up to date: asks for it anew as long as somebody looks at it. Every page is complete without this.
const main = () => document.getElementById("main");
const news = document.getElementById("news");
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A reader who types, or has marked text, is not disturbed.
function isBusy() {
  const active = document.activeElement;
  const isTyping = main().contains(active) && active.matches("input, select, textarea, iframe");
  return isTyping || (!getSelection().isCollapsed && main().contains(getSelection().anchorNode));
}

function show(text) {
  const next = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (!next) return;
  for (const open of main().querySelectorAll("details[id][open]")) {
    next.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
  }
  // A frame that is replaced begins anew, so it stays as long as it is the same.
  if (next.innerHTML === main().innerHTML) return;
  const stops = () => [...main().querySelectorAll("a, button, summary, [tabindex]")];
  const focused = stops().indexOf(document.activeElement);
  main().replaceWith(document.adoptNode(next));
  if (focused >= 0) stops()[focused]?.focus({ preventScroll: true });
}

// A list is in the memory of the page: a change of it is on the screen within a second. What else there is to see is asked of the API
// server each time.
const REST = ["/applications", "/schedules", "/connects"].includes(location.pathname) ? 700 : 3000;

async function follow() {
  while (main().dataset.live !== undefined) {
    await pause(REST);
    if (isBusy() || document.hidden) continue;
    try {
      const answer = await fetch(location.href);
      if (answer.redirected) location.reload();
      const text = await answer.text();
      if (isBusy()) continue;
      if (answer.ok || !main().querySelector("table, section")) show(text);
      news.textContent = answer.ok ? "" : `This page is not up to date (${answer.status}).`;
    } catch {
      news.textContent = "The connection is lost. This page comes back by itself.";
    }
  }
}

// Lines that come are added to a log, as long as it is followed. Of very many, the first ones go.
async function tail(log) {
  for (let rest = 1000; ; await pause(rest)) {
    if (document.hidden || !document.getElementById("follow").checked) continue;
    try {
      const address = new URL(log.dataset.tail, location.href);
      address.searchParams.set("after", log.dataset.after);
      const answer = await fetch(address);
      if (answer.redirected) location.reload();
      const after = answer.headers.get("x-after");
      rest = after === null ? 5000 : 1000;
      const isPage = answer.headers.get("content-type")?.startsWith("text/html");
      const text = after === null && isPage ? `This log is not up to date (${answer.status}).` : await answer.text();
      news.textContent = after === null ? text : "";
      if (!after) continue;
      log.dataset.after = after;
      log.append(text);
      while (log.childNodes.length > 300) log.firstChild.remove();
      log.scrollTop = log.scrollHeight;
    } catch { news.textContent = "The connection is lost. This page comes back by itself."; }
  }
}

const log = document.getElementById("log");
if (log?.dataset.tail) { log.scrollTop = log.scrollHeight; tail(log); }
follow();
