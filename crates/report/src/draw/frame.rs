//! The rectangle that data are drawn in, and how values become places.

use super::scene::{Spot, spot};
use crate::figure::{Ranges, Scale};
use analysis::Interval;

/// The rectangle of the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// What it shows.
    pub ranges: Ranges,
    /// Scale along x.
    pub x_scale: Scale,
    /// Scale along y.
    pub y_scale: Scale,
}

impl Frame {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where a value lies along x.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.width * share(value, self.ranges.x, self.x_scale)
    }

    /// Where a value lies along y.
    pub fn y(&self, value: f64) -> f64 {
        self.bottom() - self.height * share(value, self.ranges.y, self.y_scale)
    }

    /// Where a pair of values lies.
    pub fn at(&self, x: f64, y: f64) -> Spot {
        spot(self.x(x), self.y(y))
    }

    /// A height, moved into the frame.
    pub fn clamp_y(&self, y: f64) -> f64 {
        y.clamp(self.top, self.bottom())
    }

    /// A distance from the left, moved into the frame.
    pub fn clamp_x(&self, x: f64) -> f64 {
        x.clamp(self.left, self.right())
    }

    /// The part of a broken line that lies in the frame (Liang and Barsky).
    pub fn clipped(&self, line: &[Spot]) -> Vec<Vec<Spot>> {
        let mut pieces: Vec<Vec<Spot>> = Vec::new();
        for pair in line.windows(2) {
            let Some((from, to)) = self.segment(pair[0], pair[1]) else {
                continue;
            };
            match pieces.last_mut() {
                Some(piece) if piece.last() == Some(&from) => piece.push(to),
                _ => pieces.push(vec![from, to]),
            }
        }
        pieces
    }

    fn segment(&self, from: Spot, to: Spot) -> Option<(Spot, Spot)> {
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let sides = [
            (-dx, from.x - self.left),
            (dx, self.right() - from.x),
            (-dy, from.y - self.top),
            (dy, self.bottom() - from.y),
        ];
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (towards, room) in sides {
            if towards == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if towards < 0.0 {
                enter = enter.max(room / towards);
            } else {
                leave = leave.min(room / towards);
            }
        }
        let along = |t: f64| match t {
            0.0 => from,
            1.0 => to,
            t => spot(from.x + t * dx, from.y + t * dy),
        };
        (enter <= leave).then(|| (along(enter), along(leave)))
    }
}

/// Where a value lies in a range, from 0 to 1.
fn share(value: f64, range: Interval<f64>, scale: Scale) -> f64 {
    let share = match scale {
        Scale::Linear => (value - range.low) / (range.high - range.low),
        Scale::Log => (value / range.low).ln() / (range.high / range.low).ln(),
    };
    // Far outside is far enough.
    if share.is_finite() {
        share.clamp(-50.0, 50.0)
    } else {
        0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let range = Interval {
            low: 1.0,
            high: 100.0,
        };
        Frame {
            left: 10.0,
            top: 20.0,
            width: 100.0,
            height: 50.0,
            ranges: Ranges { x: range, y: range },
            x_scale: Scale::Log,
            y_scale: Scale::Linear,
        }
    }

    #[test]
    fn places_by_hand() {
        let frame = frame();
        // 10 is the middle of 1 … 100 in ln; 50.5 the middle in value.
        assert!((frame.x(10.0) - 60.0).abs() < 1e-9);
        assert!((frame.y(50.5) - 45.0).abs() < 1e-9);
        assert!(frame.x(0.0).is_finite() && frame.x(-1.0).is_finite());
    }

    #[test]
    fn lines_end_at_the_frame() {
        let frame = frame();
        // From inside straight down through the lower edge at y = 70.
        let pieces = frame.clipped(&[spot(50.0, 60.0), spot(50.0, 90.0), spot(60.0, 60.0)]);
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0], [spot(50.0, 60.0), spot(50.0, 70.0)]);
        assert!(frame.clipped(&[spot(0.0, 0.0), spot(5.0, 90.0)]).is_empty());
    }
}
