//! Quantiles of the beta and Student distributions, for the test of [`late`](crate::late).
//!
//! Both come from the regularized incomplete beta function I_x(a, b), evaluated by
//! its continued fraction (DLMF 8.17.22, modified Lentz method) and inverted by
//! bisection: tens of microseconds, a handful of times per analysis.

/// Below this a denominator of the continued fraction counts as zero.
const TINY: f64 = 1e-300;
const TERMS: u32 = 500;

/// I_x(a, b) = P(X ≤ x) for X ~ Beta(a, b); a, b > 0.
pub fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let log_front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    // The fraction converges fast on the near side of the mean; the other side is
    // I_x(a, b) = 1 − I_{1−x}(b, a).
    if x < (a + 1.0) / (a + b + 2.0) {
        log_front.exp() * beta_fraction(x, a, b) / a
    } else {
        1.0 - log_front.exp() * beta_fraction(1.0 - x, b, a) / b
    }
}

/// The x with P(X ≤ x) = p for X ~ Beta(a, b).
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..120 {
        let middle = 0.5 * (low + high);
        if beta_cdf(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-13 * high {
            break;
        }
    }
    0.5 * (low + high)
}

/// The t with P(T > t) = `tail` for Student's T with ν degrees of freedom, 0 < tail ≤ ½.
///
/// ν/(ν + T²) ~ Beta(ν/2, ½), so P(T > t) = ½·I_x(ν/2, ½) with x = ν/(ν + t²).
pub fn student_upper(tail: f64, degrees: f64) -> f64 {
    let x = beta_quantile(2.0 * tail, 0.5 * degrees, 0.5);
    (degrees * (1.0 / x - 1.0)).max(0.0).sqrt()
}

/// The continued fraction of DLMF 8.17.22.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..=TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / nonzero(1.0 + even * d);
        c = nonzero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / nonzero(1.0 + odd * d);
        c = nonzero(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// ln Γ(x) for x > 0: shifted up to x ≥ 10, then Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square
                * (1.0 / 360.0
                    - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn gamma_by_hand() {
        // Γ(5) = 24, Γ(½) = √π, Γ(1) = 1.
        close(ln_gamma(5.0), 24.0_f64.ln(), 1e-12);
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-12);
        close(ln_gamma(1.0), 0.0, 1e-12);
    }

    #[test]
    fn beta_by_hand() {
        // Beta(1, b) has P(X ≤ x) = 1 − (1 − x)ᵇ; Beta(a, 1) has xᵃ.
        close(beta_cdf(0.3, 1.0, 4.0), 1.0 - 0.7_f64.powi(4), 1e-13);
        close(beta_cdf(0.9, 3.0, 1.0), 0.729, 1e-13);
        // Beta(2, 2) has 3x² − 2x³, ½ at ½; at ¼: 3/16 − 2/64 = 5/32.
        close(beta_cdf(0.25, 2.0, 2.0), 5.0 / 32.0, 1e-13);
        close(beta_quantile(5.0 / 32.0, 2.0, 2.0), 0.25, 1e-12);
        close(beta_quantile(0.5, 2.0, 2.0), 0.5, 1e-12);
    }

    #[test]
    fn student_by_hand() {
        // One degree of freedom is Cauchy: t = tan(π(½ − tail)), so tan(π/4) = 1 at ¼.
        close(student_upper(0.25, 1.0), 1.0, 1e-10);
        // Two: P(T > t) = ½ − t/(2√(2 + t²)), so t = √2 has ½ − √2/4 = 0.146447.
        close(
            student_upper(0.5 - 2.0_f64.sqrt() / 4.0, 2.0),
            2.0_f64.sqrt(),
            1e-10,
        );
        // Printed tables: t(0.05, 3) = 2.353, t(0.01, 4) = 3.747, t(0.025, 10) = 2.228.
        close(student_upper(0.05, 3.0), 2.353, 5e-4);
        close(student_upper(0.01, 4.0), 3.747, 5e-4);
        close(student_upper(0.025, 10.0), 2.228, 5e-4);
    }
}
