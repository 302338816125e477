//! Fields of a form, as the logins of clouds take them.

use super::spelling::encoded;

/// A form of these fields.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(name, value)| {
        let (name, value) = (encoded(name), encoded(value));
        format!("{name}={value}")
    });
    fields.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures::cases;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn what_is_in_a_form_stays_within_its_field(text in ".{0,40}") {
            let form = form(&[("A", &text), ("B", "1")]);
            prop_assert_eq!(form.matches(['&', '=']).count(), 3);
            prop_assert!(form.bytes().all(|it| it.is_ascii_graphic()), "{}", form);
        }
    }
}
