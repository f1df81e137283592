//! Grid, axes, ticks and their labels.

use super::frame::Frame;
use super::scene::{Anchor, Scene, Shape, Words, spot};
use super::ticks::{Tick, minor, ticks};
use crate::figure::{Figure, Ranges};
use crate::font::{self, Weight};
use crate::palette::Ink;

const TICK: f64 = 11.5;
const LABEL: f64 = 12.5;

/// Room around the frame for ticks and labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margins {
    /// For the labels of y.
    pub left: f64,
    /// For the half of the last label of x.
    pub right: f64,
    /// For the labels of x.
    pub bottom: f64,
}

impl Margins {
    /// The room that a figure's labels need beside a plot of this height.
    pub fn of(figure: &Figure, ranges: Ranges, height: f64) -> Self {
        let frame = Frame {
            left: 0.0,
            top: 0.0,
            width: height,
            height,
            ranges,
            x_scale: figure.x.scale,
            y_scale: figure.y.scale,
        };
        let all = y_ticks(figure, &frame);
        let widest = all
            .iter()
            .map(|tick| text_width(&tick.label))
            .fold(0.0, f64::max);
        Self {
            left: widest + LABEL + 20.0,
            right: 10.0,
            bottom: 44.0,
        }
    }
}

fn text_width(text: &str) -> f64 {
    font::width(text, TICK, Weight::Regular)
}

fn y_ticks(figure: &Figure, frame: &Frame) -> Vec<Tick> {
    let apart = |set: &[Tick]| {
        set.windows(2)
            .all(|pair| (frame.y(pair[0].value) - frame.y(pair[1].value)).abs() >= 2.4 * TICK)
    };
    ticks(frame.ranges.y, figure.y.scale, figure.y.ticks, apart)
}

fn x_ticks(figure: &Figure, frame: &Frame) -> Vec<Tick> {
    let apart = |set: &[Tick]| {
        set.windows(2).all(|pair| {
            let room = (frame.x(pair[1].value) - frame.x(pair[0].value)).abs();
            room >= 0.5 * (text_width(&pair[0].label) + text_width(&pair[1].label)) + 9.0
        })
    };
    ticks(frame.ranges.x, figure.x.scale, figure.x.ticks, apart)
}

/// Draws grid, axes, ticks and labels.
pub fn draw(scene: &mut Scene, figure: &Figure, frame: &Frame, margins: &Margins) {
    let (left, right, top, bottom) = (frame.left, frame.right(), frame.top, frame.bottom());
    let across = x_ticks(figure, frame);
    let up = y_ticks(figure, frame);
    let columns = across.iter().map(|tick| {
        let x = frame.x(tick.value);
        vec![spot(x, top), spot(x, bottom)]
    });
    let rows = up.iter().map(|tick| {
        let y = frame.y(tick.value);
        vec![spot(left, y), spot(right, y)]
    });
    let grid: Vec<_> = columns.chain(rows).collect();
    if !grid.is_empty() {
        scene.shape(Shape::lines(grid, Ink::Grid, 1.0));
    }
    let mut axes = vec![vec![
        spot(left, top),
        spot(left, bottom),
        spot(right, bottom),
    ]];
    for tick in &across {
        let x = frame.x(tick.value);
        axes.push(vec![spot(x, bottom), spot(x, bottom + 4.5)]);
    }
    for value in minor(frame.ranges.x, figure.x.scale, figure.x.ticks) {
        let x = frame.x(value);
        axes.push(vec![spot(x, bottom), spot(x, bottom + 2.5)]);
    }
    for tick in &up {
        let y = frame.y(tick.value);
        axes.push(vec![spot(left - 4.5, y), spot(left, y)]);
    }
    scene.shape(Shape::lines(axes, Ink::Axis, 1.0));
    labels(scene, frame, &across, &up);
    captions(scene, figure, frame, margins);
}

fn labels(scene: &mut Scene, frame: &Frame, across: &[Tick], up: &[Tick]) {
    for tick in across {
        let place = spot(frame.x(tick.value), frame.bottom() + 6.0 + TICK);
        scene.words(Words::new(place, tick.label.as_str(), TICK, Anchor::Middle));
    }
    for tick in up {
        let place = spot(frame.left - 8.0, frame.y(tick.value) + 0.36 * TICK);
        scene.words(Words::new(place, tick.label.as_str(), TICK, Anchor::End));
    }
}

fn captions(scene: &mut Scene, figure: &Figure, frame: &Frame, margins: &Margins) {
    let below = spot(frame.left + 0.5 * frame.width, frame.bottom() + 36.0);
    scene.words(Words::new(below, figure.x.caption(), LABEL, Anchor::Middle));
    let beside = spot(
        frame.left - margins.left + LABEL - 1.0,
        frame.top + 0.5 * frame.height,
    );
    scene.words(Words::new(beside, figure.y.caption(), LABEL, Anchor::Middle).upwards());
    if !figure.spans.is_empty() {
        let strip = spot(
            frame.left - 8.0,
            frame.top - 0.5 * super::marks::strip_height(figure) + 3.0,
        );
        scene.words(Words::new(strip, "best", 10.5, Anchor::End).in_ink(Ink::Muted));
    }
}
