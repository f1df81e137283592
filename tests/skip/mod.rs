//! What a test says that lacks something on this machine.

/// Says that a test is skipped, for lack of `what`. It fails instead where `NOISESCALE_REQUIRE`
/// names that, as in `chromium,mnist`: what should be there and is not would go unnoticed.
pub fn skipped(what: &str, why: &str) {
    let required = std::env::var("NOISESCALE_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == what);
    assert!(!is_required, "NOISESCALE_REQUIRE names {what}: {why}");
    println!("skipped: {why}");
}
