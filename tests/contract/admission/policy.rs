//! ValidatingAdmissionPolicies as the API server evaluates them, with kube's CEL.
//!
//! Three things it cannot do. An optional field of a map (`a.?b`) is an error to it where the field is missing, so that is read as a call
//! of our own, `a.opt('b')`, an option being a list of none or one. And there is no `authorizer`: each policy asks it in variables of
//! their own and nowhere else, about what is requested, and this is answered from the roles of `deploy/people.yaml`. And there are no types that `dyn` could take away.

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A policy, and whether its binding denies or only warns.
pub struct Policy {
    pub name: String,
    rules: Vec<Rule>,
    conditions: Vec<Named>,
    variables: Vec<Named>,
    pub validations: Vec<Validation>,
    denies: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    expression: String,
    pub message: String,
    message_expression: Option<String>,
}

/// A request, as admission sees it.
pub struct Request {
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: String,
    pub operation: &'static str,
    pub username: String,
    /// The own verbs that RBAC grants this user.
    pub verbs: Vec<String>,
    pub options: Value,
    pub old: Value,
    pub new: Value,
}

/// What all policies together say.
#[derive(Default)]
pub struct Verdict {
    pub denials: Vec<String>,
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Refused by the API server itself.
    pub fn refused(message: &str) -> Self {
        Self {
            denials: vec![message.to_owned()],
            warnings: vec![],
        }
    }
}

/// All policies of a manifest.
pub fn all(manifest: &str) -> Vec<Policy> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
    let of_kind = |kind: &'static str| documents.iter().filter(move |it| it["kind"] == kind);
    let policy = |document: &Value| {
        let (name, spec) = (&document["metadata"]["name"], &document["spec"]);
        let mut bindings = of_kind("ValidatingAdmissionPolicyBinding");
        let binding = bindings.find(|it| it["spec"]["policyName"] == *name);
        let actions = &binding.expect("a binding")["spec"]["validationActions"];
        let actions = actions.as_array().expect("actions");
        Policy {
            name: name.as_str().expect("a name").to_owned(),
            rules: parsed(&spec["matchConstraints"]["resourceRules"]),
            conditions: parsed(spec.get("matchConditions").unwrap_or(&json!([]))),
            variables: parsed(spec.get("variables").unwrap_or(&json!([]))),
            validations: parsed(&spec["validations"]),
            denies: actions.contains(&json!("Deny")),
        }
    };
    of_kind("ValidatingAdmissionPolicy").map(policy).collect()
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a policy")
}

/// Asks every policy. An expression that fails denies (`failurePolicy: Fail`).
pub fn judge(policies: &[Policy], request: &Request) -> Verdict {
    let mut verdict = Verdict::default();
    for policy in policies
        .iter()
        .filter(|policy| policy.rules.iter().any(|rule| rule.matches(request)))
    {
        let said = policy.judge(request).unwrap_or_else(|error| vec![error]);
        if policy.denies {
            verdict.denials.extend(said);
        } else {
            verdict.warnings.extend(said);
        }
    }
    verdict
}

impl Rule {
    fn matches(&self, request: &Request) -> bool {
        let path = match request.subresource.as_str() {
            "" => request.resource.to_owned(),
            _ => format!("{}/*", request.resource),
        };
        let holds = |list: &[String], word: &str| list.iter().any(|it| it == "*" || it == word);
        holds(&self.api_groups, request.group)
            && holds(&self.operations, request.operation)
            && self.resources.contains(&path)
    }
}

impl Policy {
    fn judge(&self, request: &Request) -> Result<Vec<String>, String> {
        let mut context = context(request);
        for condition in &self.conditions {
            if !is_true(&condition.expression, &context)? {
                return Ok(vec![]);
            }
        }
        let mut variables = Map::new();
        for Named { name, expression } in &self.variables {
            let value = match verb(expression, request.resource) {
                Some(verb) => json!(request.verbs.iter().any(|it| it == verb)),
                None => json_of(&evaluated(expression, &context)?),
            };
            variables.insert(name.clone(), value);
            context
                .add_variable("variables", Value::Object(variables.clone()))
                .expect("a variable");
        }
        let mut said = vec![];
        for validation in &self.validations {
            if !is_true(&validation.expression, &context)? {
                said.push(match &validation.message_expression {
                    Some(words) => match evaluated(words, &context)? {
                        Cel::String(words) => words.to_string(),
                        other => panic!("a message that is no text: {other:?}"),
                    },
                    None => validation.message.clone(),
                });
            }
        }
        Ok(said)
    }
}

/// The verb that a variable asks the authorizer about.
fn verb<'a>(expression: &'a str, resource: &str) -> Option<&'a str> {
    if !expression.contains("authorizer") {
        return None;
    }
    let asked = format!("authorizer.group('nodefencing.io').resource('{resource}').check('");
    let rest = expression.trim().strip_prefix(&asked);
    let verb = rest.and_then(|rest| rest.strip_suffix("').allowed()"));
    Some(verb.expect("a question of a form that can be answered here"))
}

fn context(request: &Request) -> Context<'static> {
    let mut context = Context::default().with_all();
    let mut about = json!({
        "operation": request.operation, "userInfo": {"username": request.username}, "options": request.options,
    });
    if !request.subresource.is_empty() {
        about["subResource"] = json!(request.subresource);
    }
    for (name, value) in [
        ("request", &about),
        ("object", &request.new),
        ("oldObject", &request.old),
    ] {
        context.add_variable(name, value).expect("a variable");
    }
    context.add_function("opt", opt);
    context.add_function("or", or);
    context.add_function("dyn", |value: Cel| Ok::<_, ExecutionError>(value));
    context
}

/// The field of a map, or of an option of one.
fn opt(This(of): This<Cel>, field: Arc<String>) -> Result<Cel, ExecutionError> {
    let of = match of {
        Cel::List(option) => option.first().cloned(),
        other => Some(other),
    };
    let found = match of {
        Some(Cel::Map(map)) => map.map.get(&Key::String(field)).cloned(),
        Some(other) => {
            return Err(ExecutionError::function_error(
                "opt",
                format!("of {other:?}"),
            ));
        }
        None => None,
    };
    Ok(Cel::List(Arc::new(found.into_iter().collect())))
}

/// What an option holds, or else this.
fn or(This(option): This<Cel>, other: Cel) -> Result<Cel, ExecutionError> {
    match option {
        Cel::List(option) => Ok(option.first().cloned().unwrap_or(other)),
        _ => Err(ExecutionError::function_error("orValue", "of no option")),
    }
}

fn is_true(expression: &str, context: &Context<'_>) -> Result<bool, String> {
    match evaluated(expression, context)? {
        Cel::Bool(value) => Ok(value),
        other => panic!("`{expression}` is {other:?}"),
    }
}

fn evaluated(expression: &str, context: &Context<'_>) -> Result<Cel, String> {
    let mut text = String::new();
    let mut rest = expression.replace(".orValue(", ".or(");
    while let Some((before, after)) = rest.clone().split_once(".?") {
        let end = after
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(after.len());
        let (field, after) = after.split_at(end);
        text.push_str(&format!("{before}.opt('{field}')"));
        after.clone_into(&mut rest);
    }
    text.push_str(&rest);
    let program = Program::compile(&text).unwrap_or_else(|error| panic!("`{text}`: {error}"));
    let result = program.execute(context);
    result.map_err(|error| format!("`{expression}` failed: {error}"))
}

fn json_of(value: &Cel) -> Value {
    match value {
        Cel::Null => Value::Null,
        Cel::Bool(value) => json!(value),
        Cel::String(value) => json!(**value),
        Cel::List(values) => values.iter().map(json_of).collect(),
        Cel::Map(map) => {
            let pairs = map.map.iter().map(|(key, value)| match key {
                Key::String(key) => (key.to_string(), json_of(value)),
                other => panic!("a key {other:?}"),
            });
            Value::Object(pairs.collect())
        }
        other => panic!("a variable that is {other:?}"),
    }
}
