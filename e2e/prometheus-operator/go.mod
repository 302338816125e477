// Nothing of it is built: e2e/src/prometheus_operator.rs takes the CustomResourceDefinitions out of the module. So it is pinned here, where
// what it needs itself does not change a version of the control plane's.
module nodefencing.io/e2e/prometheusoperator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
