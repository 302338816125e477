//! What Kubernetes takes, for values that the chart hands on as they are: the schemas of its types, without their descriptions, and with no
//! field that the type does not have. So `resources: {request: ...}` is an error, and not a pod without a request.

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, HostAlias, PodDNSConfig, PodSecurityContext, ResourceRequirements,
    SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyPeer};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Where a generated schema has the types that it refers to.
const DEFINITIONS: &str = "#/$defs/";

/// A schema in which `{"kubernetes": TYPE, ...}` stands for that type, narrowed by whatever is beside it.
pub fn expand(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            let named = fields.remove("kubernetes");
            let rest = fields.into_iter().map(|(name, it)| (name, expand(it)));
            let rest = Value::Object(rest.collect());
            let Some(named) = named else {
                return rest;
            };
            let mut of_type = of_type(named.as_str().expect("the name of a type"));
            json_patch::merge(&mut of_type, &rest);
            of_type
        }
        other => other,
    }
}

fn of_type(name: &str) -> Value {
    match name {
        "Affinity" => generated::<Affinity>(),
        "DeploymentStrategy" => generated::<DeploymentStrategy>(),
        "EnvVar" => generated::<EnvVar>(),
        "HostAlias" => generated::<HostAlias>(),
        "NetworkPolicyEgressRule" => generated::<NetworkPolicyEgressRule>(),
        "NetworkPolicyPeer" => generated::<NetworkPolicyPeer>(),
        "PodDNSConfig" => generated::<PodDNSConfig>(),
        "PodSecurityContext" => generated::<PodSecurityContext>(),
        "ResourceRequirements" => generated::<ResourceRequirements>(),
        "SecurityContext" => generated::<SecurityContext>(),
        "TopologySpreadConstraint" => generated::<TopologySpreadConstraint>(),
        "Volume" => generated::<Volume>(),
        "VolumeMount" => generated::<VolumeMount>(),
        "RelabelConfig" => relabel_config(),
        _ => panic!("which type is {name}?"),
    }
}

/// Of the Prometheus Operator. Its own CustomResourceDefinition judges what is rendered (e2e/tests/e2e/chart).
fn relabel_config() -> Value {
    let text = json!({"type": "string"});
    let actions = [
        "replace",
        "keep",
        "drop",
        "hashmod",
        "labelmap",
        "labeldrop",
        "labelkeep",
        "lowercase",
        "uppercase",
        "keepequal",
        "dropequal",
    ];
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "action": {"enum": actions},
            "modulus": {"type": "integer"},
            "regex": text,
            "replacement": text,
            "separator": text,
            "sourceLabels": {"type": "array", "items": text},
            "targetLabel": text,
        },
    })
}

fn generated<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.into_root_schema_for::<T>();
    let mut schema = serde_json::to_value(schema).expect("JSON");
    let definitions = schema["$defs"].take();
    closed(schema, &definitions)
}

/// Without definitions, descriptions and what only the API server reads; an object has no other fields than those that it names.
fn closed(schema: Value, definitions: &Value) -> Value {
    let reference = schema["$ref"].as_str();
    if let Some(name) = reference.and_then(|it| it.strip_prefix(DEFINITIONS)) {
        return match name.rsplit('.').next() {
            // Read by tests/book as well, which knows this word and no list of types.
            Some("IntOrString") => {
                json!({"type": ["integer", "string"], "x-kubernetes-int-or-string": true})
            }
            Some("Quantity") => {
                json!({"type": ["number", "string"], "x-kubernetes-int-or-string": true})
            }
            _ => closed(definitions[name].clone(), definitions),
        };
    }
    let Value::Object(fields) = schema else {
        return schema;
    };
    let mut kept = Map::new();
    for (word, value) in fields {
        let value = match word.as_str() {
            "type" | "required" | "enum" => value,
            "items" | "additionalProperties" => closed(value, definitions),
            "properties" => {
                kept.insert("additionalProperties".to_owned(), json!(false));
                let fields = value.as_object().cloned().unwrap_or_default();
                let closed = |(name, it)| (name, closed(it, definitions));
                Value::Object(fields.into_iter().map(closed).collect())
            }
            "$schema" | "$defs" | "title" | "description" | "format" => continue,
            other => panic!("a word that nobody thought of: {other}"),
        };
        kept.insert(word, value);
    }
    Value::Object(kept)
}
