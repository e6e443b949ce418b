//! The live table on a terminal.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use scavenger_schema::simulation::State;
use tokio::sync::mpsc;

use super::super::row::{QueueRow, table};
use super::super::text::{cut, number_of, shown};

/// What a key asks for.
pub(super) enum Key {
    Quit,
    Redraw,
}

/// The terminal, given back as it was when this is dropped.
pub(super) struct Screen {
    terminal: ratatui::DefaultTerminal,
    events: mpsc::Receiver<Event>,
    /// Rows that are scrolled over.
    offset: usize,
    /// Rows that fit.
    page: usize,
    rows: usize,
}

impl Screen {
    pub(super) fn open() -> std::io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (sender, events) = mpsc::channel(16);
        // Reading a key blocks; the thread ends with the process, or when nobody takes its keys.
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if sender.blocking_send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Self { terminal, events, offset: 0, page: 1, rows: 0 })
    }

    pub(super) fn show(&mut self, rows: &[QueueRow], trouble: Option<&str>) -> std::io::Result<()> {
        self.rows = rows.len();
        let mut offset = self.offset;
        let mut page = self.page;
        self.terminal.draw(|frame| (offset, page) = draw(frame, rows, offset, trouble))?;
        (self.offset, self.page) = (offset, page);
        Ok(())
    }

    /// Waits for a key or a change of size.
    pub(super) async fn key(&mut self) -> Key {
        loop {
            match self.events.recv().await {
                // The terminal is gone.
                None => return Key::Quit,
                Some(Event::Resize(..)) => return Key::Redraw,
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    self.offset = match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Key::Quit,
                        KeyCode::Char('c' | 'd') if control => return Key::Quit,
                        KeyCode::Up | KeyCode::Char('k') => self.offset.saturating_sub(1),
                        KeyCode::Down | KeyCode::Char('j') => self.offset + 1,
                        KeyCode::PageUp => self.offset.saturating_sub(self.page),
                        KeyCode::PageDown | KeyCode::Char(' ') => self.offset + self.page,
                        KeyCode::Home | KeyCode::Char('g') => 0,
                        KeyCode::End | KeyCode::Char('G') => self.rows,
                        _ => continue,
                    };
                    return Key::Redraw;
                }
                Some(_) => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws, and returns where the rows begin and how many fit.
fn draw(frame: &mut Frame, rows: &[QueueRow], offset: usize, trouble: Option<&str>) -> (usize, usize) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let width = usize::from(middle.width);
    let mut lines = table(rows).render(Some(width)).into_iter();
    let heading = lines.next().unwrap_or_default();
    // Below the heading.
    let page = usize::from(middle.height).saturating_sub(1).max(1);
    let offset = offset.min(rows.len().saturating_sub(page));
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let mut text = vec![Line::styled(heading, bold)];
    text.extend(
        lines.zip(rows).skip(offset).take(page).map(|(line, row)| Line::styled(line, style(&row.state))),
    );
    frame.render_widget(Line::styled(cut(&summary(rows), width), bold), top);
    frame.render_widget(Text::from(text), middle);
    let last = match trouble {
        Some(trouble) => Line::styled(cut(&shown(trouble), width), Style::default().fg(Color::Red)),
        None if rows.len() > page => Line::from(cut(
            &format!(
                "rows {} to {} of {}; q ends, arrows scroll",
                offset + 1,
                (offset + page).min(rows.len()),
                rows.len()
            ),
            width,
        )),
        None => Line::from("q ends"),
    };
    frame.render_widget(last, bottom);
    (offset, page)
}

fn summary(rows: &[QueueRow]) -> String {
    let mut numbers: BTreeMap<State, usize> = BTreeMap::new();
    for state in rows.iter().filter_map(|row| row.state.parse().ok()) {
        *numbers.entry(state).or_default() += 1;
    }
    let parts: Vec<String> = numbers.iter().map(|(state, number)| format!("{number} {state}")).collect();
    if parts.is_empty() {
        "nothing to follow; rows appear here when they are added".to_owned()
    } else {
        format!("{}: {}", number_of(rows.len(), "row"), parts.join(", "))
    }
}

/// The state is written, too: nobody has to see colours.
fn style(state: &str) -> Style {
    match state.parse() {
        Ok(State::Running) => Style::default().fg(Color::Green),
        Ok(State::Failed) => Style::default().fg(Color::Red),
        Ok(State::Interrupted) => Style::default().fg(Color::Yellow),
        Ok(State::Completed | State::Cancelled) => Style::default().add_modifier(Modifier::DIM),
        _ => Style::default(),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::super::row::tests::running;
    use super::*;

    fn drawn(rows: &[QueueRow], offset: usize, trouble: Option<&str>) -> (String, (usize, usize)) {
        let mut terminal = Terminal::new(TestBackend::new(60, 6)).expect("should be a terminal");
        let mut place = (0, 0);
        terminal.draw(|frame| place = draw(frame, rows, offset, trouble)).expect("should draw");
        let buffer = terminal.backend().buffer().clone();
        let lines: Vec<String> = buffer
            .content()
            .chunks(60)
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
            .collect();
        (lines.join("\n"), place)
    }

    #[test]
    fn the_screen_shows_a_page_and_says_what_is_not_on_it() {
        let rows: Vec<QueueRow> = (1..=10).map(running).collect();
        let (screen, place) = drawn(&rows, 0, None);
        assert!(screen.starts_with("10 rows: 10 running\nROW  STATE"), "{screen}");
        assert!(screen.contains("runs/3/md.tpr") && !screen.contains("runs/4/md.tpr"), "{screen}");
        assert!(screen.ends_with("rows 1 to 3 of 10; q ends, arrows scroll"), "{screen}");
        assert_eq!(place, (0, 3));
        let (screen, place) = drawn(&rows, 99, Some("the database\u{1b}[2J does not answer"));
        assert_eq!(place, (7, 3), "nobody scrolls over the end");
        assert!(screen.contains("runs/10/md.tpr"), "{screen}");
        assert!(screen.ends_with("the database\u{fffd}[2J does not answer"), "{screen}");
    }

    #[test]
    fn nothing_to_follow_is_said() {
        assert!(drawn(&[], 5, None).0.starts_with("nothing to follow"));
    }
}
