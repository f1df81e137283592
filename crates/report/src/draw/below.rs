//! Marks below the range of the axis: arrows at its lower edge, in a form that no series uses.
//!
//! Several curves often leave the axis at the same x. Their arrows stand side by side, so that
//! as many are seen as the note counts.

use super::frame::Frame;
use super::scene::{Shape, Spot, spot};
use crate::figure::Figure;
use crate::palette::Ink;

/// Pixels between two arrows.
const STEP: f64 = 5.0;

/// Arrows that stand side by side, around the mean of where they belong.
struct Row {
    sum: f64,
    marks: Vec<usize>,
}

impl Row {
    fn centre(&self) -> f64 {
        self.sum / self.marks.len() as f64
    }

    fn half(&self) -> f64 {
        0.5 * STEP * (self.marks.len() as f64 - 1.0)
    }

    fn overlaps(&self, next: &Self) -> bool {
        self.centre() + self.half() + STEP > next.centre() - next.half()
    }
}

/// Where the arrows point to, in the order of the figure's marks; `None` for a mark in the range.
pub fn places(figure: &Figure, frame: &Frame) -> Vec<Option<Spot>> {
    let low = frame.ranges.y.low;
    let wanted: Vec<Option<f64>> = (figure.marks())
        .map(|(_, mark)| (mark.y < low).then(|| frame.clamp_x(frame.x(mark.x))))
        .collect();
    let mut found = vec![None; wanted.len()];
    for row in rows(&wanted) {
        let room = (frame.left + row.half() + 4.0)..=(frame.right() - row.half() - 4.0);
        let centre = match room.is_empty() {
            true => row.centre(),
            false => row.centre().clamp(*room.start(), *room.end()),
        };
        for (at, mark) in row.marks.iter().enumerate() {
            let x = centre - row.half() + STEP * at as f64;
            found[*mark] = Some(spot(x, frame.bottom() - 2.0));
        }
    }
    found
}

/// The wanted places in rows that do not overlap.
fn rows(wanted: &[Option<f64>]) -> Vec<Row> {
    let mut order: Vec<(f64, usize)> = (wanted.iter().enumerate())
        .filter_map(|(at, x)| Some(((*x)?, at)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows: Vec<Row> = Vec::new();
    for (x, mark) in order {
        let mut row = Row {
            sum: x,
            marks: vec![mark],
        };
        while let Some(mut last) = rows.pop() {
            if !last.overlaps(&row) {
                rows.push(last);
                break;
            }
            last.sum += row.sum;
            last.marks.append(&mut row.marks);
            row = last;
        }
        rows.push(row);
    }
    rows
}

/// An arrow down to the edge.
pub fn arrow(tip: Spot, ink: Ink) -> Shape {
    let shaft = vec![spot(tip.x, tip.y - 10.0), tip];
    let head = vec![
        spot(tip.x - 2.2, tip.y - 3.4),
        tip,
        spot(tip.x + 2.2, tip.y - 3.4),
    ];
    Shape::lines(vec![shaft, head], ink, 1.3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_of_one_place_stand_side_by_side() {
        let found = rows(&[Some(50.0), None, Some(50.0), Some(90.0), Some(53.0)]);
        let marks: Vec<&[usize]> = found.iter().map(|row| row.marks.as_slice()).collect();
        assert_eq!(marks, [&[0, 2, 4][..], &[3]]);
        // (50 + 50 + 53)/3 = 51, from 46 to 56.
        assert_eq!((found[0].centre(), found[0].half()), (51.0, 5.0));
    }
}
