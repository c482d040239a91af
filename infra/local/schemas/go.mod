module vsphere-functions/schemas

go 1.25

require (
	github.com/compose-spec/compose-go/v2 v2.16.2
	github.com/kedacore/keda/v2 v2.21.0
	knative.dev/eventing v0.50.0
	knative.dev/serving v0.51.0
)
