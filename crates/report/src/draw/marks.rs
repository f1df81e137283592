//! Curves, bars, marks, fitted lines and the strip of best intervals.

use super::below;
use super::frame::Frame;
use super::scene::{Item, Outline, Scene, Shape, Spot, Stroke, spot};
use crate::figure::{Figure, FigureKind, Fit, Mark, Marker, Series, Span, Stress};
use crate::palette::Ink;
use analysis::Interval;

/// Pixels between series that are set apart.
const DODGE: f64 = 5.0;

/// Draws everything inside the frame.
pub fn draw(scene: &mut Scene, figure: &Figure, frame: &Frame) {
    for fit in &figure.fits {
        draw_band(scene, fit, frame);
    }
    if figure.diagonal {
        let (low, high) = (frame.ranges.x.low, frame.ranges.x.high);
        let line = Shape::line(frame.at(low, low), frame.at(high, high), Ink::Axis, 1.2);
        scene.shape(line.dashed([5.0, 4.0]));
    }
    for fit in &figure.fits {
        draw_fit(scene, fit, frame);
    }
    for series in figure.series.iter().filter(|series| series.joined) {
        draw_curve(scene, series, frame);
    }
    for ((series, mark), below) in figure.marks().zip(below::places(figure, frame)) {
        scene.items.push(match below {
            Some(tip) => draw_below(series, mark, tip),
            None => draw_mark(figure, series, mark, frame),
        });
    }
}

fn draw_band(scene: &mut Scene, fit: &Fit, frame: &Frame) {
    if let Some(slopes) = fit.slopes {
        let corners = vec![
            frame.at(0.0, 0.0),
            frame.at(fit.beyond, fit.beyond * slopes.high),
            frame.at(fit.beyond, fit.beyond * slopes.low),
        ];
        scene.shape(Shape::polygon(corners, fit.ink).faint(0.14));
    }
}

/// Solid over the fitted widths, dashed from the origin to them and beyond them.
fn draw_fit(scene: &mut Scene, fit: &Fit, frame: &Frame) {
    let at = |x: f64| frame.at(x, fit.slope * x);
    let (from, until) = (at(fit.from), at(fit.until));
    let dashed = |from, to| Shape::line(from, to, fit.ink, 1.3).dashed([4.0, 3.0]);
    scene.shape(dashed(at(0.0), from));
    scene.shape(Shape::line(from, until, fit.ink, 1.6));
    if fit.beyond > fit.until {
        scene.shape(dashed(until, at(fit.beyond)));
    }
}

fn draw_curve(scene: &mut Scene, series: &Series, frame: &Frame) {
    let line: Vec<Spot> = (series.marks.iter())
        .map(|mark| set_apart(series, frame.at(mark.x, mark.y)))
        .collect();
    let pieces = frame.clipped(&line);
    if !pieces.is_empty() {
        scene.shape(match series.stress {
            Stress::Plain => Shape::lines(pieces, series.ink, 1.4).faint(0.85),
            Stress::Faint => Shape::lines(pieces, series.ink, 1.0).faint(0.4),
        });
    }
}

/// Where a mark or a corner of a curve is drawn.
fn set_apart(series: &Series, at: Spot) -> Spot {
    spot(at.x + DODGE * series.dodge, at.y)
}

fn draw_mark(figure: &Figure, series: &Series, mark: &Mark, frame: &Frame) -> Item {
    let at = set_apart(series, frame.at(mark.x, mark.y));
    let mut shapes = bars(figure, series.ink, mark, at, frame);
    shapes.extend(arrows(series.ink, mark, at, frame));
    let radius = match (series.stress, series.joined) {
        (Stress::Faint, _) => 2.0,
        (Stress::Plain, true) => 3.7,
        (Stress::Plain, false) => 4.8,
    };
    shapes.push(marker(series.marker, at, radius, series.ink, mark.hollow));
    Item::Mark {
        at,
        text: mark.text.clone(),
        point: mark.point.clone(),
        shapes,
    }
}

/// A mark below the range of the axis.
fn draw_below(series: &Series, mark: &Mark, tip: Spot) -> Item {
    let mut text = mark.text.clone();
    text.push("below the range of the axis".into());
    Item::Mark {
        at: spot(tip.x, tip.y - 5.0),
        text,
        point: mark.point.clone(),
        shapes: vec![below::arrow(tip, series.ink)],
    }
}

/// Bars and, below them, the wider intervals; bars that lie on such lines are thick.
fn bars(figure: &Figure, ink: Ink, mark: &Mark, at: Spot, frame: &Frame) -> Vec<Shape> {
    let upright = |i: Interval<f64>| {
        let [low, high] = [i.low, i.high].map(|y| frame.clamp_y(frame.y(y)));
        [spot(at.x, low), spot(at.x, high)]
    };
    let level = |i: Interval<f64>| {
        let [low, high] = [i.low, i.high].map(|x| frame.clamp_x(frame.x(x)));
        [spot(low, at.y), spot(high, at.y)]
    };
    let whiskers = [mark.y_whisker.map(upright), mark.x_whisker.map(level)];
    let mut shapes: Vec<Shape> = (whiskers.into_iter().flatten())
        .map(|[from, to]| Shape::line(from, to, ink, 1.0).faint(0.7))
        .collect();
    let thick = figure.kind == FigureKind::Law || has_whiskers(figure);
    let bars = [
        (mark.y_bar.map(upright), spot(3.0, 0.0)),
        (mark.x_bar.map(level), spot(0.0, 3.0)),
    ];
    for (bar, cap) in bars {
        let Some(ends) = bar else { continue };
        let mut pieces = vec![ends.to_vec()];
        if !thick {
            pieces.extend(ends.map(|end| {
                let (dx, dy) = (cap.x, cap.y);
                vec![spot(end.x - dx, end.y - dy), spot(end.x + dx, end.y + dy)]
            }));
        }
        shapes.push(Shape::lines(pieces, ink, if thick { 3.0 } else { 1.1 }));
    }
    shapes
}

/// Whether marks have a second, wider interval.
fn has_whiskers(figure: &Figure) -> bool {
    figure
        .marks()
        .any(|(_, mark)| mark.x_whisker.is_some() || mark.y_whisker.is_some())
}

/// Arrows from the ends of the bar, or of the mark where the bar is shorter, to where the true
/// value may lie.
fn arrows(ink: Ink, mark: &Mark, at: Spot, frame: &Frame) -> Vec<Shape> {
    let ends = mark.y_bar.map_or([at.y; 2], |bar| {
        [bar.low, bar.high].map(|y| frame.clamp_y(frame.y(y)))
    });
    let arrow = |end: f64, direction: f64| {
        let along = |from: f64, length: f64| from + length * direction;
        let furthest = |a: f64, b: f64| if (a - b) * direction > 0.0 { a } else { b };
        let wanted = furthest(along(end, 14.0), along(at.y, 20.0));
        // In the frame where that leaves enough to be seen.
        let tip = furthest(frame.clamp_y(wanted), along(end, 7.0));
        let neck = along(tip, -4.5);
        let head = vec![
            spot(at.x - 3.5, neck),
            spot(at.x, tip),
            spot(at.x + 3.5, neck),
        ];
        Shape::lines(vec![vec![spot(at.x, end), spot(at.x, tip)], head], ink, 1.3)
    };
    let mut shapes = Vec::new();
    if mark.open.above {
        shapes.push(arrow(ends[1], -1.0));
    }
    if mark.open.below {
        shapes.push(arrow(ends[0], 1.0));
    }
    shapes
}

/// A mark of about the same area in every shape.
pub fn marker(kind: Marker, at: Spot, radius: f64, ink: Ink, hollow: bool) -> Shape {
    let around = |corners: usize, radius: f64, turn: f64| {
        let corner = |k: usize| {
            let angle = std::f64::consts::TAU * (k as f64 / corners as f64 + turn);
            spot(at.x + radius * angle.sin(), at.y - radius * angle.cos())
        };
        Outline::Polygon((0..corners).map(corner).collect())
    };
    let outline = match kind {
        Marker::Circle => Outline::Circle { centre: at, radius },
        Marker::Square => around(4, 1.27 * radius, 0.125),
        Marker::Triangle => around(3, 1.45 * radius, 0.0),
        Marker::Diamond => around(4, 1.3 * radius, 0.0),
        Marker::Pentagon => around(5, 1.18 * radius, 0.0),
        Marker::Plus => plus(at, 1.3 * radius, 0.48 * radius, 0.0),
        Marker::Hexagon => around(6, 1.12 * radius, 0.0),
        Marker::Cross => plus(at, 1.3 * radius, 0.48 * radius, 0.125),
    };
    let (fill, line, width) = if hollow {
        (Ink::Paper, ink, 1.6)
    } else {
        (ink, Ink::Paper, 0.8)
    };
    Shape {
        outline,
        stroke: Some(Stroke {
            ink: line,
            width,
            dash: None,
        }),
        fill: Some(fill),
        opacity: 1.0,
    }
}

/// A plus sign, turned by a part of a whole turn.
fn plus(at: Spot, reach: f64, half: f64, turn: f64) -> Outline {
    let quarter = [
        (-half, -reach),
        (half, -reach),
        (half, -half),
        (reach, -half),
        (reach, half),
        (half, half),
        (half, reach),
        (-half, reach),
        (-half, half),
        (-reach, half),
        (-reach, -half),
        (-half, -half),
    ];
    let (sin, cos) = (std::f64::consts::TAU * turn).sin_cos();
    let corner = |(x, y): (f64, f64)| spot(at.x + cos * x - sin * y, at.y + sin * x + cos * y);
    Outline::Polygon(quarter.map(corner).to_vec())
}

/// Height of the strip of best intervals.
pub fn strip_height(figure: &Figure) -> f64 {
    match figure.spans.len() {
        0 => 0.0,
        rows => row_height(rows) * rows as f64 + 8.0,
    }
}

fn row_height(rows: usize) -> f64 {
    (60.0 / rows as f64).clamp(4.5, 8.0)
}

/// Draws the best intervals above the frame, one row each.
pub fn draw_strip(scene: &mut Scene, figure: &Figure, frame: &Frame) {
    let row = row_height(figure.spans.len());
    let top = frame.top - strip_height(figure) + 3.0;
    for (at, span) in figure.spans.iter().enumerate() {
        let y = top + row * (at as f64 + 0.5);
        scene.items.push(draw_span(span, y, frame));
    }
}

fn draw_span(span: &Span, y: f64, frame: &Frame) -> Item {
    let [low, high, best] =
        [span.ends.low, span.ends.high, span.best].map(|x| frame.clamp_x(frame.x(x)));
    let mut shapes = vec![Shape::line(
        spot(low - 6.0, y),
        spot(high + 6.0, y),
        span.ink,
        3.0,
    )];
    let mut arrow = |tip: f64, direction: f64| {
        let back = tip - 5.0 * direction;
        let corners = vec![spot(back, y - 3.6), spot(tip, y), spot(back, y + 3.6)];
        shapes.push(Shape::polygon(corners, span.ink));
    };
    if span.open.below {
        arrow(low - 12.0, -1.0);
    }
    if span.open.above {
        arrow(high + 12.0, 1.0);
    }
    shapes.push(marker(Marker::Circle, spot(best, y), 2.6, span.ink, true));
    Item::Mark {
        at: spot(best, y),
        text: span.text.clone(),
        point: None,
        shapes,
    }
}
