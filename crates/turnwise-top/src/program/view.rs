//! The table in a terminal: what keys do to it, and how it is drawn.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table as Grid, TableState};
use turnwise_top::Snapshot;

use crate::table::{Column, Order, Table, widths};

/// A turn of this many milliseconds is yellow.
const LONG: u128 = 1_000;

pub(crate) struct View {
    table: Option<Table>,
    last: Option<Snapshot>,
    order: Order,
    filter: String,
    /// Keys go to the filter.
    edits: bool,
    is_paused: bool,
    /// The reason that there is nothing newer.
    failure: Option<String>,
    rows: TableState,
    pub(crate) is_over: bool,
}

impl View {
    pub(crate) fn new() -> Self {
        View {
            table: None,
            last: None,
            order: Order::by(Column::Busy),
            filter: String::new(),
            edits: false,
            is_paused: false,
            failure: None,
            rows: TableState::default(),
            is_over: false,
        }
    }

    /// A snapshot has come, or none. A view that is paused stays as it is.
    pub(crate) fn take(&mut self, snapshot: Result<Snapshot, String>) {
        match snapshot {
            Err(failure) => {
                self.failure = Some(failure);
                // The numbers of another server have nothing to do with these.
                self.last = None;
            }
            Ok(snapshot) => {
                self.failure = None;
                if !self.is_paused {
                    self.table = Some(Table::of(&snapshot, self.last.as_ref()));
                }
                self.last = Some(snapshot);
            }
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= key.code == KeyCode::Char('c');
            return;
        }
        match key.code {
            KeyCode::Up => self.rows.scroll_up_by(1),
            KeyCode::Down => self.rows.scroll_down_by(1),
            KeyCode::PageUp => self.rows.scroll_up_by(10),
            KeyCode::PageDown => self.rows.scroll_down_by(10),
            KeyCode::Home => self.rows.select_first(),
            KeyCode::End => self.rows.select_last(),
            KeyCode::Enter => self.edits = false,
            KeyCode::Esc => {
                self.edits = false;
                self.filter.clear();
                self.rows.select(None);
            }
            KeyCode::Backspace if self.edits => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.edits => self.filter.push(c),
            KeyCode::Char('/') => self.edits = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.order.reversed = !self.order.reversed,
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char(digit @ '1'..='8') => self.sort_by(digit as usize - '1' as usize),
            _ => {}
        }
    }

    /// By that column; by the same one once more, the other way round.
    fn sort_by(&mut self, column: usize) {
        let column = Column::ALL[column];
        self.order = match self.order {
            before if before.column == column => Order { reversed: !before.reversed, ..before },
            _ => Order::by(column),
        };
    }

    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        // Notes take a third at most.
        let notes = self.table.as_ref().map_or(&[][..], |table| &table.notes);
        let notes = notes_in(notes, usize::from(frame.area().height) / 3);
        let height = u16::try_from(notes.len()).unwrap_or(u16::MAX);
        let lines = [1, height, 1].map(Constraint::Length);
        let lines = [lines[0], Constraint::Fill(1), lines[1], lines[2]];
        let [top, middle, below, bottom] = Layout::vertical(lines).areas(frame.area());
        frame.render_widget(self.headline(), top);
        if let Some(table) = &self.table {
            let grid = grid(table, &self.filter, self.order);
            frame.render_stateful_widget(grid, middle, &mut self.rows);
        }
        let notes: Vec<Line<'_>> = notes.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(notes).fg(Color::Red), below);
        frame.render_widget(self.footer(), bottom);
    }

    fn headline(&self) -> Paragraph<'_> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut spans = Vec::new();
        if self.is_paused {
            spans.push(Span::styled("PAUSED  ", bold.fg(Color::Yellow)));
        }
        if let Some(failure) = &self.failure {
            spans.push(Span::styled(format!("{failure}  "), bold.fg(Color::Red)));
        }
        match &self.table {
            None => spans.push(Span::raw("waiting for a snapshot")),
            Some(table) => {
                let style = if table.rings > 0 { bold.fg(Color::Red) } else { bold };
                spans.push(Span::styled(&*table.summary, style));
            }
        }
        Paragraph::new(Line::from(spans))
    }

    fn footer(&self) -> Paragraph<'_> {
        let dim = Style::new().fg(Color::DarkGray);
        if self.edits || !self.filter.is_empty() {
            let cursor = if self.edits { "_" } else { "" };
            let hint = Span::styled("  Enter keeps it, Esc clears it", dim);
            return Paragraph::new(Line::from(vec![
                Span::raw(format!("names with: {}{cursor}", self.filter)),
                hint,
            ]));
        }
        let keys = "1-8 sort  r reverse  / filter  p pause  arrows scroll  q quit";
        Paragraph::new(Line::styled(keys, dim))
    }
}

/// The notes that fit into that many lines; the last line says how many do not.
fn notes_in(notes: &[String], lines: usize) -> Vec<String> {
    if notes.len() <= lines {
        return notes.to_vec();
    }
    let Some(shown) = lines.checked_sub(1) else { return Vec::new() };
    let more = format!("{} more; --once prints them", notes.len() - shown);
    notes[..shown].iter().cloned().chain([more]).collect()
}

fn grid<'a>(table: &Table, filter: &str, order: Order) -> Grid<'a> {
    let rows = table.select(filter, order);
    let cells: Vec<[String; 8]> =
        rows.iter().map(|row| Column::ALL.map(|column| row.cell(column))).collect();
    let mut widths = widths(&cells);
    // The mark of the order stands behind its title.
    let titles = Column::ALL.map(|column| match column.title() {
        title if column != order.column => title.to_owned(),
        title if order.ascends() => format!("{title} ^"),
        title => format!("{title} v"),
    });
    for (width, title) in widths.iter_mut().zip(&titles) {
        *width = (*width).max(title.len());
    }
    let line = |cells: [String; 8]| {
        let cells = cells.into_iter().zip(Column::ALL).map(|(cell, column)| {
            let side = if column.is_text() { Alignment::Left } else { Alignment::Right };
            Cell::new(Line::from(cell).alignment(side))
        });
        Row::new(cells)
    };
    let styled = rows.iter().zip(cells).map(|(row, cells)| {
        let style = match row.busy {
            _ if row.in_ring => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            None => Style::new().fg(Color::DarkGray),
            Some(busy) if busy.as_millis() >= LONG => Style::new().fg(Color::Yellow),
            Some(_) => Style::new(),
        };
        line(cells).style(style)
    });
    let head = line(titles).style(Style::new().fg(Color::Black).bg(Color::Cyan));
    let widths = widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    Grid::new(styled, widths)
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::sample;
    use crate::svg;

    fn press(view: &mut View, keys: &str) {
        keys.chars().for_each(|key| view.key(KeyCode::Char(key).into()));
    }

    fn drawn(view: &mut View, width: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, 16)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// The lines of the terminal, without spaces at their ends.
    fn lines(view: &mut View) -> Vec<String> {
        let buffer = drawn(view, 96);
        let line =
            |y| -> String { (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    /// The names of the rows.
    fn names(view: &mut View) -> Vec<String> {
        let lines = lines(view);
        let names = lines[2..lines.len() - 1].iter().take_while(|line| !line.is_empty());
        names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    }

    fn view() -> View {
        let mut view = View::new();
        sample::snapshots().into_iter().for_each(|snapshot| view.take(Ok(snapshot)));
        view
    }

    #[test]
    fn rings_are_red_and_long_turns_yellow() {
        let mut view = view();
        let buffer = drawn(&mut view, 96);
        let names = names(&mut view);
        for (at, name) in names.iter().enumerate() {
            let colour = match name.as_str() {
                "stock" | "ledger" => Color::Red,
                "parser" | "mail/bob" => Color::DarkGray,
                "mailer" | "orders" => Color::Reset,
                _ => Color::Yellow,
            };
            assert_eq!(buffer[(0, at as u16 + 2)].fg, colour, "{name}");
        }
        assert_eq!(names.len(), 11);
        assert_eq!(buffer[(0, 0)].fg, Color::Red);
        assert_eq!(buffer[(0, 14)].fg, Color::Red);
        assert!(lines(&mut view)[14].starts_with("mail/ada: dead letter order 7 (send)"));
    }

    #[test]
    fn keys_sort_filter_pause_and_quit() {
        let mut view = view();
        assert_eq!(names(&mut view)[0], "report");
        press(&mut view, "1");
        assert_eq!(names(&mut view)[0], "archive");
        assert!(lines(&mut view)[1].starts_with("actor ^"));
        press(&mut view, "1");
        assert_eq!(names(&mut view)[0], "till");
        press(&mut view, "r3");
        assert_eq!(names(&mut view)[0], "orders");
        // Letters of the filter are no commands.
        press(&mut view, "/q");
        assert!(names(&mut view).is_empty() && !view.is_over);
        view.key(KeyCode::Backspace.into());
        press(&mut view, "or");
        assert_eq!(names(&mut view), ["orders", "report"]);
        view.key(KeyCode::Enter.into());
        press(&mut view, "p");
        let [mut before, mut now] = sample::snapshots();
        before.actors.clear();
        now.actors.clear();
        now.sources.clear();
        view.take(Ok(now));
        assert_eq!(names(&mut view), ["orders", "report"]);
        assert!(lines(&mut view)[0].starts_with("PAUSED  shop"));
        press(&mut view, " ");
        view.take(Ok(before));
        assert!(names(&mut view).is_empty());
        assert!(!view.is_over);
        press(&mut view, "q");
        assert!(view.is_over);
    }

    #[test]
    fn a_long_table_scrolls() {
        let mut view = view();
        let [_, mut now] = sample::snapshots();
        let many = (0..100).map(|n| {
            let mut actor = now.actors[0].clone();
            (actor.number, actor.name) = (n, format!("actor{n:03}"));
            actor
        });
        now.actors = many.collect();
        now.sources.clear();
        view.take(Ok(now));
        press(&mut view, "1");
        assert_eq!(names(&mut view).first().unwrap(), "actor000");
        view.key(KeyCode::End.into());
        assert_eq!(names(&mut view).last().unwrap(), "actor099");
    }

    #[test]
    fn notes_take_a_third_of_the_terminal_at_most() {
        let mut view = view();
        let [_, mut now] = sample::snapshots();
        let letters = &mut now.sources[0].report.dead_letters;
        *letters = vec![letters[0].clone(); 9];
        view.take(Ok(now));
        let lines = lines(&mut view);
        assert_eq!(lines[10..14], vec![lines[10].clone(); 4]);
        assert!(lines[9].starts_with("mailer") && lines[10].starts_with("mail/ada: dead letter"));
        assert_eq!(lines[14], "5 more; --once prints them");
    }

    #[test]
    fn the_last_table_stays_when_the_program_has_ended() {
        let mut view = view();
        view.take(Err("the server has ended".to_owned()));
        assert_eq!(names(&mut view).len(), 11);
        assert!(lines(&mut view)[0].starts_with("the server has ended  shop"));
    }

    /// Any terminal, however small.
    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (2, 3), (10, 2), (300, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| view().draw(frame)).unwrap();
        }
    }

    #[test]
    fn the_picture_of_the_readme_is_what_is_drawn() {
        svg::expect(&drawn(&mut view(), 120));
    }
}
