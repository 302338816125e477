//! `-o`: tables for people, versioned JSON and YAML for programs, names for `xargs`.
//!
//! What programs read has a version of its own ([`VERSION`]): within it fields are added, and none changes its meaning or goes.

use super::Error;
use super::page::html::is_unseen;
use super::table::wrapped;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Version of everything that is printed for programs.
pub const VERSION: &str = "cli.nodefencing.io/v1";

/// In which form. Each command takes those that make sense for it ([`forms`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people, in 80 columns
    Table,
    /// With additional columns
    Wide,
    /// Only what needs attention
    Short,
    /// JSON of `cli.nodefencing.io/v1`
    Json,
    /// The same as YAML
    Yaml,
    /// `TYPE/name`, one per line
    Name,
    /// One self-contained HTML page
    Html,
}

/// Reads one of these forms, which are all that `--help` and a shell name.
pub fn forms(forms: &[Form]) -> impl TypedValueParser<Value = Form> + use<> {
    let values = forms.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|it| Form::from_str(&it, false))
}

/// What a command shows, for programs.
pub trait Content: Serialize {
    /// Its kind.
    const KIND: &'static str;

    /// The objects that it is about, as `TYPE/name`; of a command that takes no [`Form::Name`] there are none.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What is printed in this form; `text` is what people are shown in it.
///
/// # Errors
/// It cannot be written as such, which is a fault of the program.
pub fn written<T: Content>(
    form: Form,
    content: &T,
    text: impl FnOnce(Form) -> String,
) -> Result<String, Error> {
    match form {
        Form::Json | Form::Yaml => serialized(form, content),
        Form::Name => Ok(content.names().iter().map(|it| format!("{it}\n")).collect()),
        Form::Table | Form::Wide | Form::Short | Form::Html => Ok(text(form)),
    }
}

/// What a program reads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, T> {
    /// [`VERSION`].
    pub api_version: &'static str,
    /// What it is.
    pub kind: &'a str,
    /// The rest.
    #[serde(flatten)]
    pub content: &'a T,
}

/// The content as JSON or YAML.
///
/// # Errors
/// It cannot be written as such, which is a fault of the program.
pub fn serialized<T: Content>(form: Form, content: &T) -> Result<String, Error> {
    let kind = T::KIND;
    let envelope = Envelope {
        api_version: VERSION,
        kind,
        content,
    };
    encoded(form, kind, &envelope)
}

/// An object of the cluster as JSON or YAML: as `kubectl get` shows it, without who has written which field.
///
/// # Errors
/// As [`serialized`].
pub fn object<K>(form: Form, object: &K) -> Result<String, Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let kind = K::kind(&());
    let mut value = serde_json::to_value(object).map_err(|it| unwritable(&kind, &it))?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    encoded(form, &kind, &value)
}

fn encoded(form: Form, kind: &str, content: &impl Serialize) -> Result<String, Error> {
    match form {
        Form::Yaml => {
            let value = serde_json::to_value(content).map_err(|it| unwritable(kind, &it))?;
            serde_saphyr::to_string(&value).map_err(|it| unwritable(kind, &it))
        }
        _ => {
            let text = serde_json::to_string_pretty(content);
            text.map(|it| it + "\n").map_err(|it| unwritable(kind, &it))
        }
    }
}

fn unwritable(kind: &str, why: &impl std::fmt::Display) -> Error {
    Error::No(format!("{kind} cannot be written: {why}"))
}

/// Writes to standard output, what has no shape of its own by its number.
///
/// # Errors
/// [`Error::Io`].
pub fn print(text: &str) -> Result<(), Error> {
    print_raw(&visible(text))
}

/// The same of what is ours to the last sign.
///
/// # Errors
/// [`Error::Io`].
pub fn print_raw(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Complains, or tells what a program that reads standard output is not to read: in a line, on a terminal in lines that fit it.
pub fn complain(words: &str) {
    let words = visible(words);
    match io::stderr().is_terminal() {
        true => eprint!("{}", wrapped(&words, 0)),
        false => eprintln!("{words}"),
    }
}

/// What others have written (an Event, a reason) moves no cursor and turns no text around: what has no shape of its own is shown by its number.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |sign: char| is_unseen(sign) && !matches!(sign, '\n' | '\t');
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let signs = text.chars().map(|sign| match is_hidden(sign) {
        true => format!("[U+{:04X}]", u32::from(sign)),
        false => sign.to_string(),
    });
    Cow::Owned(signs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::PossibleValue;

    #[derive(Serialize)]
    struct Pods {
        count: u32,
    }

    impl Content for Pods {
        const KIND: &'static str = "Pods";

        fn names(&self) -> Vec<String> {
            vec!["pod/a".to_owned(), "pod/b".to_owned()]
        }
    }

    #[test]
    fn one_content_has_every_form() {
        let pods = Pods { count: 2 };
        let text = |form| written(form, &pods, |it| format!("{it:?}")).expect("a text");
        assert_eq!(text(Form::Wide), "Wide");
        assert_eq!(text(Form::Html), "Html");
        assert_eq!(text(Form::Name), "pod/a\npod/b\n");
        let yaml = "apiVersion: cli.nodefencing.io/v1\ncount: 2\nkind: Pods\n";
        assert_eq!(text(Form::Yaml), yaml);
        let json: serde_json::Value = serde_json::from_str(&text(Form::Json)).expect("JSON");
        assert_eq!(json["kind"], "Pods");
    }

    #[test]
    fn an_object_is_shown_as_kubectl_shows_it() {
        let policy = serde_json::json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
            "metadata": {"name": "all", "managedFields": [{"manager": "kubectl"}]}, "spec": {"nodeSelector": {}},
        });
        let policy: fencing_api::policy::NodeFencingPolicy =
            serde_json::from_value(policy).expect("a policy");
        let text = object(Form::Json, &policy).expect("JSON");
        assert!(text.contains("\"kind\": \"NodeFencingPolicy\""), "{text}");
        assert!(!text.contains("managedFields"), "{text}");
        let text = object(Form::Yaml, &policy).expect("YAML");
        assert!(
            text.starts_with("apiVersion: nodefencing.io/v1alpha1\n"),
            "{text}"
        );
    }

    #[test]
    fn a_command_takes_its_own_forms_and_names_no_other() {
        let command = clap::Command::new("plan");
        let arg = clap::Arg::new("output").value_parser(forms(&[Form::Table, Form::Name]));
        let values: Vec<PossibleValue> = arg.get_possible_values();
        let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        assert_eq!(values, ["table", "name"]);
        let command = command.arg(arg);
        let taken = |form| {
            let matches = command.clone().try_get_matches_from(["plan", form]).ok()?;
            matches.get_one::<Form>("output").copied()
        };
        assert_eq!(taken("name"), Some(Form::Name));
        assert_eq!((taken("html"), taken("NAME")), (None, None));
    }

    #[test]
    fn what_others_have_written_moves_no_cursor() {
        assert_eq!(visible("a\tb\n\u{e9}"), "a\tb\n\u{e9}");
        assert_eq!(visible("\x1b[2Jgone\u{202e}"), "[U+001B][2Jgone[U+202E]");
    }
}
