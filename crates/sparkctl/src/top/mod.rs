//! `sparkctl top`: shows all applications on a screen that stays up to date. If the output is not a terminal, prints
//! the content of the screen once.

mod screen;
mod terminal;

use super::{
    cluster::Cluster,
    failure::of_call,
    show::{self, Style, print},
};
use api::{Lenient, SparkApplication};
use clap::Args;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures::{Stream, StreamExt};
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use screen::{Order, Screen};
use std::{
    io::{self, IsTerminal},
    ops::ControlFlow,
    pin::pin,
    time::Duration,
};
use terminal::Terminal;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sparkctl top --all-namespaces
  sparkctl top --once --sort age | head

Keys: q quits; s sorts by the next column; arrows, page up, page down, home and end scroll.")]
pub(super) struct Flags {
    /// Applications of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only those with these labels, `KEY=VALUE,…` as for kubectl
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,

    /// The column by which they are sorted
    #[arg(long, value_enum, value_name = "COLUMN", default_value_t = Order::State)]
    sort: Order,

    /// Print all rows once; the default if the output is not a terminal
    #[arg(long)]
    once: bool,
}

/// The time between two drawings of the screen. Watch events wait for the next drawing, and without events the screen
/// is drawn too, because ages change. After a key the screen is drawn at once.
const TICK: Duration = Duration::from_secs(1);

type Guarded = Lenient<SparkApplication>;
type News = watcher::Result<watcher::Event<Guarded>>;

pub(super) async fn top(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let (api, place) = if flags.all_namespaces {
        (Api::<Guarded>::all(cluster.client.clone()), "all namespaces".to_owned())
    } else {
        (cluster.api(), format!("namespace {}", cluster.namespace))
    };
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&flags.selector);
    let mut screen = Screen::new(place, flags.all_namespaces, flags.sort);
    let mut news = pin!(watcher(api, config).default_backoff());
    first(&mut screen, &mut news).await?;
    if flags.once || !io::stdout().is_terminal() {
        return print(&screen.whole(Style::of_stdout())?);
    }
    live(screen, news).await
}

/// Waits until the first list of applications is complete. Returns the first error, because the watch would retry for
/// ever.
async fn first(screen: &mut Screen, news: &mut (impl Stream<Item = News> + Unpin)) -> anyhow::Result<()> {
    while let Some(event) = news.next().await {
        match event {
            Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) => {
                return Err(of_call(error));
            }
            Err(error) => anyhow::bail!("the API server cannot be reached: {error}"),
            Ok(event) if matches!(event, watcher::Event::InitDone) => {
                screen.take(event);
                break;
            }
            Ok(event) => screen.take(event),
        }
    }
    Ok(())
}

async fn live(mut screen: Screen, mut news: impl Stream<Item = News> + Unpin) -> anyhow::Result<()> {
    let mut terminal = Terminal::new()?;
    let mut keys = EventStream::new();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(event) = news.next() => match event {
                Ok(event) => screen.take(event),
                Err(error) => screen.interrupted(&error.to_string()),
            },
            _ = tick.tick() => terminal.draw(&mut screen, Style { now: show::now(), ..Style::of_stdout() })?,
            key = keys.next() => match key {
                Some(Ok(Event::Key(KeyEvent { code, modifiers, kind, .. }))) if kind != KeyEventKind::Release => {
                    match press(&mut screen, code, modifiers) {
                        ControlFlow::Break(()) => return Ok(()),
                        ControlFlow::Continue(true) => tick.reset_immediately(),
                        ControlFlow::Continue(false) => {}
                    }
                }
                // Another event, such as a resize of the terminal.
                Some(Ok(_)) => tick.reset_immediately(),
                Some(Err(_)) | None => return Ok(()),
            },
            _ = terminated.recv() => return Ok(()),
        }
    }
}

/// Handles a key. Continues with whether the key has a meaning here; breaks if it ends the command.
fn press(screen: &mut Screen, code: KeyCode, modifiers: KeyModifiers) -> ControlFlow<(), bool> {
    let page = screen.room.cast_signed();
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return ControlFlow::Break(()),
        KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
        KeyCode::Char('s') => screen.sort_by_next(),
        KeyCode::Up | KeyCode::Char('k') => screen.move_by(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.move_by(1),
        KeyCode::PageUp => screen.move_by(-page),
        KeyCode::PageDown | KeyCode::Char(' ') => screen.move_by(page),
        KeyCode::Home => screen.move_by(isize::MIN),
        KeyCode::End => screen.move_by(isize::MAX),
        _ => return ControlFlow::Continue(false),
    }
    ControlFlow::Continue(true)
}
