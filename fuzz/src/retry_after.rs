//! The header `Retry-After`: no device makes us wait for longer than ten minutes.

use fencing_drivers::http::{RETRY_AFTER_MAX, pause};

pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(pause) = pause(&text) {
        assert!(pause <= RETRY_AFTER_MAX);
        let seconds = text.trim().trim_start_matches(['+', '0']);
        let is_the_longest = pause == RETRY_AFTER_MAX;
        assert!(
            is_the_longest || seconds == pause.as_secs().to_string() || pause.is_zero(),
            "{text:?} is {pause:?}"
        );
    }
}
