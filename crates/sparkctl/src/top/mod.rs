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
use screen::{Move, Order, Screen};
use std::{
    io::{self, IsTerminal},
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

Keys: q ends it, s sorts by the next column, arrows, page up and down, home and end move.")]
pub(super) struct Flags {
    /// Applications of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only those with these labels, `KEY=VALUE,…` as for kubectl
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,

    /// What they are sorted by
    #[arg(long, value_enum, value_name = "COLUMN", default_value_t = Order::State)]
    sort: Order,

    /// Print all rows once; so it is where the output is not a terminal
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
                    match meaning(code, modifiers) {
                        Some(Key::End) => return Ok(()),
                        Some(Key::Sort) => screen.sort_by_next(),
                        Some(Key::Move(to)) => screen.move_by(to),
                        None => continue,
                    }
                    tick.reset_immediately();
                }
                // The terminal was resized, for instance.
                Some(Ok(_)) => tick.reset_immediately(),
                Some(Err(_)) | None => return Ok(()),
            },
            _ = terminated.recv() => return Ok(()),
        }
    }
}

enum Key {
    End,
    Sort,
    Move(Move),
}

fn meaning(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::End,
        KeyCode::Char('q') | KeyCode::Esc => Key::End,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Up | KeyCode::Char('k') => Key::Move(Move::Up),
        KeyCode::Down | KeyCode::Char('j') => Key::Move(Move::Down),
        KeyCode::PageUp => Key::Move(Move::PageUp),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Move(Move::PageDown),
        KeyCode::Home => Key::Move(Move::Home),
        KeyCode::End => Key::Move(Move::End),
        _ => return None,
    })
}
