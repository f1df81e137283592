//! Softmax cross-entropy: the loss of a batch and its gradient.

/// Mean cross-entropy of a batch and ∂loss/∂logits, with logits (B, K) row by row.
///
/// The target of label c is q = (1 − α)·1\[c\] + α/K. With p the softmax,
/// loss = −Σ q·log p and ∂loss/∂logits = (p − q)/B.
pub fn cross_entropy(
    gradient: &mut [f32],
    logits: &[f32],
    labels: &[u16],
    classes: usize,
    smoothing: f32,
) -> f64 {
    let share = 1.0 / labels.len() as f32;
    let (off, on) = (
        smoothing / classes as f32,
        1.0 - smoothing + smoothing / classes as f32,
    );
    let mut loss = 0.0;
    let rows = gradient
        .chunks_exact_mut(classes)
        .zip(logits.chunks_exact(classes));
    for ((gradient, logits), label) in rows.zip(labels) {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (p, z) in gradient.iter_mut().zip(logits) {
            *p = (z - largest).exp();
            sum += *p;
        }
        let log_sum = sum.ln() + largest;
        for (class, (p, z)) in gradient.iter_mut().zip(logits).enumerate() {
            let q = if class == usize::from(*label) {
                on
            } else {
                off
            };
            loss += f64::from(q) * f64::from(log_sum - z);
            *p = (*p / sum - q) * share;
        }
    }
    loss / labels.len() as f64
}

/// How many rows of logits (B, K) are largest at their label. A row with a NaN is wrong.
pub fn count_correct(logits: &[f32], labels: &[u16], classes: usize) -> usize {
    let right = |(logits, label): (&[f32], &u16)| {
        let own = logits[usize::from(*label)];
        // The first of equal logits wins, as an argmax would have it.
        logits.iter().enumerate().all(|(class, z)| {
            if class < usize::from(*label) {
                own > *z
            } else {
                own >= *z
            }
        })
    };
    logits
        .chunks_exact(classes)
        .zip(labels)
        .filter(|row| right(*row))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Logits 0 and ln 3: p = 1/4, 3/4; label 0: loss = ln 4.
        let logits = [0.0, 3f32.ln()];
        let mut gradient = [0.0; 2];
        let loss = cross_entropy(&mut gradient, &logits, &[0], 2, 0.0);
        assert!((loss - 4f64.ln()).abs() < 1e-6);
        assert!((gradient[0] + 0.75).abs() < 1e-6 && (gradient[1] - 0.75).abs() < 1e-6);
        // Smoothing 0.2: q = 0.9, 0.1; loss = 0.9·ln 4 + 0.1·ln(4/3).
        let loss = cross_entropy(&mut gradient, &logits, &[0], 2, 0.2);
        assert!((loss - (0.9 * 4f64.ln() + 0.1 * (4f64 / 3.0).ln())).abs() < 1e-6);
        assert!((gradient[0] + 0.65).abs() < 1e-6);
    }

    #[test]
    fn infinite_logits_give_a_loss_that_is_not_finite() {
        let mut gradient = [0.0; 2];
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(!cross_entropy(&mut gradient, &[bad, 0.0], &[1], 2, 0.0).is_finite());
        }
    }

    #[test]
    fn counts_correct_rows() {
        let logits = [1.0, 2.0, 2.0, 1.0, 1.0, 1.0, f32::NAN, 0.0];
        assert_eq!(count_correct(&logits, &[1, 1, 0, 1], 2), 2);
        assert_eq!(count_correct(&[1.0, 1.0], &[1], 2), 0);
    }
}
