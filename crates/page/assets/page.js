// Keeps an open page up to date: loads it again and again while it is visible. Every page is complete without this script.
const main = () => document.getElementById("main");
const news = document.getElementById("news");
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The page is not refreshed while the user types in it or has selected text in it.
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
  // Replacing a frame would reload it, so an unchanged page is left as it is.
  if (next.innerHTML === main().innerHTML) return;
  const stops = () => [...main().querySelectorAll("a, button, summary, [tabindex]")];
  const focused = stops().indexOf(document.activeElement);
  main().replaceWith(document.adoptNode(next));
  if (focused >= 0) stops()[focused]?.focus({ preventScroll: true });
}

// The pause between refreshes in milliseconds. Lists are in the server's memory, so changes are shown within a second. All other
// pages cause requests to the API server.
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
      news.textContent = "The connection is lost. This page retries by itself.";
    }
  }
}

// Appends new lines to a log while "Follow" is checked. Keeps the last 300 parts.
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
    } catch { news.textContent = "The connection is lost. This page retries by itself."; }
  }
}

const log = document.getElementById("log");
if (log?.dataset.tail) { log.scrollTop = log.scrollHeight; tail(log); }
follow();
