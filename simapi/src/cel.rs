//! The rules of a CustomResourceDefinition in CEL (`x-kubernetes-validations`), evaluated by kube's CEL as the API server does it: from the
//! outside in, those that compare with `oldSelf` only where there is an old value.
//!
//! Three things are added to kube's CEL, because the rules of this repository use them: `type()`, a list in the words that Go reads (RE2), and the
//! value of `int`. What it still cannot evaluate is in [`NOT_JUDGED`], and nowhere else: any other rule that cannot be evaluated refuses.

use crate::answer::{Cause, NOWHERE};
use crate::schema::regex_of_go;
use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What kube's CEL cannot evaluate: the hour in another time zone. Where such a rule cannot be decided it holds.
pub const NOT_JUDGED: [&str; 1] =
    ["self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0"];

/// The rules of a schema, compiled.
pub struct Rules {
    context: Context<'static>,
    root: Node,
}

/// The rules of one value, and of what is in it. Where there are none, there is no node.
#[derive(Default)]
struct Node {
    rules: Vec<Rule>,
    fields: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
}

struct Rule {
    text: String,
    program: Program,
    /// It compares with the value before.
    is_of_change: bool,
    /// The field that it blames, from the value on.
    field: String,
    message: String,
    /// In the place of the message.
    words: Option<Program>,
}

impl Rules {
    /// Those of a schema.
    ///
    /// # Panics
    /// When one of them cannot be read.
    #[must_use]
    pub fn of(schema: &Value) -> Self {
        let mut context = Context::default().with_all();
        context.add_function("type", type_of);
        context.add_function("matches", matches);
        context.add_variable_from_value("int", "int".to_owned());
        Self {
            context,
            root: Node::of(schema),
        }
    }

    /// What the rules have against the object, or against its change.
    #[must_use]
    pub fn causes(&self, old: Option<&Value>, new: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.ask(&self.root, old, new, "", &mut causes);
        causes
    }

    fn ask(
        &self,
        node: &Node,
        old: Option<&Value>,
        new: &Value,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        if !node.rules.is_empty() {
            let mut context = self.context.new_inner_scope();
            context.add_variable_from_value("self", cel(new));
            if let Some(old) = old {
                context.add_variable_from_value("oldSelf", cel(old));
            }
            let due = |rule: &&Rule| old.is_some() || !rule.is_of_change;
            let due = node.rules.iter().filter(due);
            causes.extend(due.filter_map(|rule| rule.cause(&context, new, path)));
        }
        for (name, node) in &node.fields {
            if let Some(new) = new.get(name) {
                let old = old.and_then(|old| old.get(name));
                self.ask(node, old, new, &joined(path, name), causes);
            }
        }
        // Of a list's elements nobody knows which of the old ones they were, and no rule of ours asks.
        let items = node.items.iter().zip(new.as_array());
        for (node, items) in items {
            for (index, item) in items.iter().enumerate() {
                self.ask(node, None, item, &format!("{path}[{index}]"), causes);
            }
        }
    }
}

impl Node {
    fn of(schema: &Value) -> Self {
        let rules = schema["x-kubernetes-validations"].as_array();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields = fields.map(|(name, schema)| (name.clone(), Self::of(schema)));
        let items = schema.get("items").map(Self::of);
        Self {
            rules: rules.into_iter().flatten().map(Rule::of).collect(),
            fields: fields.filter(|(_, node)| !node.is_empty()).collect(),
            items: items.filter(|node| !node.is_empty()).map(Box::new),
        }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fields.is_empty() && self.items.is_none()
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let known = ["rule", "message", "messageExpression", "fieldPath"];
        let fields = rule.as_object().into_iter().flatten();
        let unknown: Vec<_> = fields
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .collect();
        assert!(unknown.is_empty(), "nothing here knows {unknown:?}");
        let text = |name: &str| rule[name].as_str().unwrap_or_default().trim().to_owned();
        // An API server knows a field whose name is a word of CEL by another one (`apiextensions-apiserver`, `pkg/apiserver/schema/cel/model`).
        let program = |text: &str| {
            Program::compile(&text.replace("__namespace__", "namespace"))
                .unwrap_or_else(|error| panic!("`{text}` is no rule: {error}"))
        };
        let expression = text("rule");
        let program_of_rule = program(&expression);
        Self {
            is_of_change: program_of_rule.references().has_variable("oldSelf"),
            program: program_of_rule,
            text: expression,
            field: text("fieldPath"),
            message: text("message"),
            words: rule["messageExpression"].as_str().map(program),
        }
    }

    /// What is wrong, if the rule does not hold.
    fn cause(&self, context: &Context<'_>, value: &Value, path: &str) -> Option<Cause> {
        let detail = match self.program.execute(context) {
            Ok(Cel::Bool(true)) => return None,
            Ok(Cel::Bool(false)) => self.message(context),
            _ if NOT_JUDGED.contains(&self.text.as_str()) => return None,
            Ok(other) => format!("`{}` is no truth: {other:?}", self.text),
            Err(error) => format!("{error} evaluating rule: {}", self.message),
        };
        let field = format!("{path}{}", self.field);
        let field = match field.strip_prefix('.').unwrap_or(&field) {
            "" => NOWHERE,
            field => field,
        };
        // What has parts is not repeated.
        Some(match value {
            Value::Object(_) | Value::Array(_) => Cause::wrong(field, detail),
            plain => Cause::invalid(field, plain, detail),
        })
    }

    fn message(&self, context: &Context<'_>) -> String {
        match self.words.as_ref().map(|words| words.execute(context)) {
            Some(Ok(Cel::String(words))) => words.to_string(),
            _ => self.message.clone(),
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// A value as a rule sees it. Times stay text, which is enough to compare them with themselves.
fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(it) => Cel::Bool(*it),
        Value::Number(it) => match it.as_i64() {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(it.as_f64().unwrap_or_default()),
        },
        Value::String(it) => Cel::String(Arc::new(it.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(cel).collect())),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: HashMap<String, Cel> = fields
                .map(|(name, value)| (name.clone(), cel(value)))
                .collect();
            Cel::from(fields)
        }
    }
}

fn type_of(This(value): This<Cel>) -> Arc<String> {
    Arc::new(value.type_of().to_string())
}

/// In place of the crate's own, which does not read what Go reads.
fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<bool, ExecutionError> {
    let pattern = regex_of_go(&pattern);
    let pattern =
        pattern.map_err(|error| ExecutionError::function_error("matches", error.to_string()));
    Ok(pattern?.is_match(&text))
}
