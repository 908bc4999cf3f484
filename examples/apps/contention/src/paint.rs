//! The drawing of a figure: a title, one legend for all, and panels of lines.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Failure;
use crate::subjects::SUBJECTS;

pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Four panels.
    pub(crate) panels: Vec<Panel>,
}

pub(crate) struct Panel {
    pub(crate) title: String,
    /// The names of the columns.
    pub(crate) x: Vec<String>,
    pub(crate) x_title: &'static str,
    pub(crate) scale: Scale,
    pub(crate) y_title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// One value for each column.
pub(crate) struct Line {
    /// The index in [`SUBJECTS`].
    pub(crate) subject: usize,
    pub(crate) values: Vec<f64>,
}

#[derive(Clone, Copy)]
pub(crate) enum Scale {
    /// Linear, from zero on.
    Linear,
    /// Logarithmic.
    Nanoseconds,
}

/// An axis that knows the places of its labels. The interface of plotters for that does not accept
/// numbers.
struct Axis {
    range: Range<f64>,
    keys: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.keys.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1280, 980);
/// The font. Its sizes are those of a line, a quarter more than those of the letters.
const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const PALE: RGBColor = RGBColor(105, 105, 105);
const GRID: RGBColor = RGBColor(226, 226, 226);
/// The colours of Okabe and Ito, which are distinct for all readers; in the order of [`SUBJECTS`].
const COLOURS: [RGBColor; SUBJECTS.len()] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(130, 130, 130),
];

/// Returns the text of an SVG file.
pub(crate) fn figure(figure: &Figure) -> Result<String, Failure> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(figure.title.as_str(), (24, 18), (FONT, 36).into_font().color(&INK)))?;
    root.draw(&Text::new(figure.subtitle.as_str(), (24, 58), (FONT, 21).into_font().color(&PALE)))?;
    for (subject, name) in SUBJECTS.iter().enumerate() {
        let (x, y) = (24 + 190 * subject as i32, 104);
        root.draw(&PathElement::new([(x, y), (x + 36, y)], stroke(subject)))?;
        root.draw(&Circle::new((x + 18, y), dot(subject), COLOURS[subject].filled()))?;
        let style = (FONT, 22).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(*name, (x + 46, y), style))?;
    }
    let panels = root.margin(128, 10, 10, 10).split_evenly((2, 2));
    figure.panels.iter().zip(&panels).try_for_each(|(one, area)| panel(one, area))?;
    root.present()?;
    drop((panels, root));
    Ok(text)
}

fn stroke(subject: usize) -> ShapeStyle {
    // The line of this crate is the widest.
    COLOURS[subject].stroke_width(if subject == 0 { 4 } else { 2 })
}

fn dot(subject: usize) -> i32 {
    if subject == 0 { 6 } else { 4 }
}

fn panel(panel: &Panel, area: &Area<'_>) -> Result<(), Failure> {
    let columns = panel.x.len();
    let values = panel
        .lines
        .iter()
        .flat_map(|line| line.values.iter().copied())
        .filter(|value| *value > 0.0);
    let (least, most) = values
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    if most == 0.0 {
        return Ok(());
    }
    let scale = panel.scale;
    let x = Axis {
        range: -0.25..columns as f64 - 0.75,
        keys: (0..columns).map(|column| column as f64).collect(),
    };
    area.draw(&Text::new(panel.title.as_str(), (98, 12), (FONT, 22).into_font().color(&INK)))?;
    let area = area.margin(28, 0, 0, 0);
    let mut chart = ChartBuilder::on(&area)
        .margin(14)
        .x_label_area_size(52)
        .y_label_area_size(84)
        .build_cartesian_2d(x, scale.axis(least, most))?;
    let column = |x: &f64| panel.x.get(x.round() as usize).cloned().unwrap_or_default();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(PALE)
        .label_style((FONT, 18).into_font().color(&INK))
        .axis_desc_style((FONT, 19).into_font().color(&PALE))
        .x_desc(panel.x_title)
        .y_desc(panel.y_title)
        .x_label_formatter(&column)
        .y_label_formatter(&|y| scale.label(*y))
        .draw()?;
    // This crate comes last, on top of the others.
    for line in panel.lines.iter().rev() {
        let points = || {
            line.values
                .iter()
                .enumerate()
                .map(|(column, value)| (column as f64, scale.place(*value)))
        };
        chart.draw_series(LineSeries::new(points(), stroke(line.subject)))?;
        chart
            .draw_series(points().map(|point| {
                Circle::new(point, dot(line.subject), COLOURS[line.subject].filled())
            }))?;
    }
    Ok(())
}

impl Scale {
    /// Returns the position of a value on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Nanoseconds => value.max(1.0).log10(),
        }
    }

    /// Returns the axis, with the places of its labels.
    fn axis(self, least: f64, most: f64) -> Axis {
        match self {
            Scale::Linear => {
                let decade = 10_f64.powf((most / 5.0).log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|n| n * decade)
                    .into_iter()
                    .find(|step| most / step <= 6.0)
                    .unwrap_or(most);
                let top = most * 1.06;
                Axis {
                    range: 0.0..top,
                    keys: (0..)
                        .map(|n| f64::from(n) * step)
                        .take_while(|key| *key <= top)
                        .collect(),
                }
            }
            Scale::Nanoseconds => {
                let (bottom, top) = (self.place(least) - 0.12, self.place(most) + 0.12);
                // If the range is small, the decades alone are too few.
                let within: &[f64] = if top - bottom < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let keys = (0..12)
                    .flat_map(|decade| within.iter().map(move |n| f64::from(decade) + n.log10()));
                Axis {
                    range: bottom..top,
                    keys: keys.filter(|key| (bottom..top).contains(key)).collect(),
                }
            }
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Scale::Linear if place.fract().abs() < 1e-9 => format!("{place:.0}"),
            Scale::Linear => format!("{place:.1}"),
            Scale::Nanoseconds => match 10_f64.powf(place).round() {
                ns if ns < 1e3 => format!("{ns:.0} ns"),
                ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
                ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
                ns => format!("{:.0} s", ns / 1e9),
            },
        }
    }
}
