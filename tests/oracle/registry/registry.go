package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"simkubelet/oracle/wire"
)

// adminNamespace is the one whose label lets claims ask for admin access.
const adminNamespace = "admin"

type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// registry has strategies by the subresource that is written, empty for the object itself, and by kind.
type registry struct {
	strategies map[string]map[string]strategy
}

type request struct {
	Kind string `json:"kind"`
	// Version of the group in which the object is read and answered; the old one is in v1.
	Version     string          `json:"version"`
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old"`
	Subresource string          `json:"subresource"`
	Gates       map[string]bool `json:"gates"`
}

func newRegistry() *registry {
	namespaces := fake.NewSimpleClientset(
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   adminNamespace,
			Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"},
		}},
	).CoreV1().Namespaces()
	devices, ofDevices := deviceStrategies(namespaces)
	maps.Copy(devices, strategies)
	maps.Copy(ofDevices, ofStatus)
	return &registry{map[string]map[string]strategy{"": devices, "status": ofDevices, "finalize": ofFinalizers}}
}

func (r *registry) create(asked request) (wire.Answer, error) {
	defer setGates(asked.Gates)()
	object, ctx, err := asked.decoded()
	if err != nil {
		return nil, err
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	rest.FillObjectMetaSystemFields(metadata)
	rules := r.strategies[""][asked.Kind]
	refused := rest.BeforeCreate(rules, ctx, object)
	return answer(asked.version(), object, refused, func() []string { return rules.WarningsOnCreate(ctx, object) })
}

func (r *registry) update(asked request) (wire.Answer, error) {
	defer setGates(asked.Gates)()
	object, ctx, err := asked.decoded()
	if err != nil {
		return nil, err
	}
	old, err := decoded(stored(asked.Kind), asked.Kind, asked.Old)
	if err != nil {
		return nil, err
	}
	rules := r.strategies[asked.Subresource][asked.Kind]
	refused := rest.BeforeUpdate(rules, ctx, object, old)
	return answer(asked.version(), object, refused, func() []string { return rules.WarningsOnUpdate(ctx, object, old) })
}

// convert answers an object in v1.
func (r *registry) convert(asked request) (wire.Answer, error) {
	object, err := decoded(asked.version(), asked.Kind, asked.Object)
	if err != nil {
		return nil, err
	}
	return answer(stored(asked.Kind), object, nil, func() []string { return nil })
}

func (r request) version() schema.GroupVersion {
	version := stored(r.Kind)
	if r.Version != "" {
		version.Version = r.Version
	}
	return version
}

// decoded gives the object of a request, and the context that the API server has for it.
func (r request) decoded() (runtime.Object, context.Context, error) {
	object, err := decoded(r.version(), r.Kind, r.Object)
	if err != nil {
		return nil, nil, err
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	info := &genericapirequest.RequestInfo{
		IsResourceRequest: true,
		Verb:              "update",
		APIGroup:          r.version().Group,
		APIVersion:        r.version().Version,
		Namespace:         metadata.GetNamespace(),
		Name:              metadata.GetName(),
		Subresource:       r.Subresource,
	}
	ctx := genericapirequest.WithNamespace(context.Background(), metadata.GetNamespace())
	ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "admin"})
	return object, genericapirequest.WithRequestInfo(ctx, info), nil
}

// decoded gives an object in the internal form with its defaults.
func decoded(version schema.GroupVersion, kind string, body []byte) (runtime.Object, error) {
	gvk := version.WithKind(kind)
	object, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(body, &gvk, nil)
	if err != nil {
		return nil, fmt.Errorf("unreadable: %w", err)
	}
	return object, nil
}

// answer says what was wrong with an object, or how it is stored and which warnings its writer gets.
func answer(
	version schema.GroupVersion, object runtime.Object, refused error, warnings func() []string,
) (wire.Answer, error) {
	var status apierrors.APIStatus
	if errors.As(refused, &status) {
		details := status.Status()
		return wire.Answer{
			"ok": false, "error": details.Message, "code": details.Code, "reason": details.Reason,
			"causes": details.Details.Causes,
		}, nil
	}
	if refused != nil {
		return nil, refused
	}
	kept, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(version), object)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"object": json.RawMessage(kept), "warnings": warnings()}, nil
}

// setGates sets feature gates, and gives what sets them back.
func setGates(wanted map[string]bool) func() {
	gates := utilfeature.DefaultMutableFeatureGate
	var set, back []string
	for name, on := range wanted {
		for feature := range gates.GetAll() {
			if string(feature) == name {
				set = append(set, fmt.Sprintf("%s=%t", name, on))
				back = append(back, fmt.Sprintf("%s=%t", name, gates.Enabled(feature)))
			}
		}
	}
	apply := func(values []string) {
		if len(values) > 0 {
			if err := gates.Set(strings.Join(values, ",")); err != nil {
				panic(err)
			}
		}
	}
	apply(set)
	return func() { apply(back) }
}
