//! Cost against the number of something that is not busy, as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::report::{duration, thousands};

const SIZE: (u32, u32) = (720, 420);
const FONT: &str = "sans-serif";
/// zkit's, raw's, and those of the others.
const COLORS: [RGBColor; 8] = [
    RGBColor(214, 39, 40),
    RGBColor(127, 127, 127),
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
];

/// What is drawn: a line of points for each peer.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// Of the horizontal axis, on which the numbers are one step from each other.
    pub(crate) of: &'a str,
    pub(crate) numbers: Vec<u64>,
    /// The name of each peer, in the order of the colours, and nanoseconds at some of the numbers, by
    /// index.
    pub(crate) lines: Vec<(String, Vec<(usize, f64)>)>,
}

impl Plot<'_> {
    pub(crate) fn draw(&self, path: &Path) -> Result<()> {
        let times = || self.lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let lowest = times().fold(f64::INFINITY, f64::min) / 2.0;
        let highest = times().fold(0.0, f64::max) * 2.0;
        let last = self.numbers.len() as f64 - 1.0;

        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(64)
            // With room for the names.
            .build_cartesian_2d(-0.2..last + 0.9, (lowest..highest).log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(self.of)
            .y_desc("time of a message")
            .x_labels(self.numbers.len() + 1)
            .x_label_formatter(&|place| self.label(*place))
            .y_label_formatter(&|nanos| duration(*nanos))
            .label_style((FONT, 13))
            .draw()?;
        let lines = self.lines.iter().enumerate().filter(|(_, (_, points))| !points.is_empty());
        for (index, (name, points)) in lines {
            let color = COLORS[index % COLORS.len()];
            let width = if name == "zkit" { 4 } else { 2 };
            let line = || points.iter().map(|&(place, nanos)| (place as f64, nanos));
            chart
                .draw_series(LineSeries::new(line(), color.stroke_width(width)))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(width))
                });
            chart.draw_series(line().map(|point| Circle::new(point, width, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 14))
            .draw()?;
        area.present()?;
        Ok(())
    }

    /// Of a place on the horizontal axis.
    fn label(&self, place: f64) -> String {
        let number = self.numbers.get(place.round() as usize);
        number.map_or_else(String::new, |number| thousands(*number))
    }
}
