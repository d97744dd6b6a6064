//go:build !before1_32

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"simkubelet/oracle/wire"
)

// cluster holds claims and slices, and the field selectors with which slices were wiped.
type cluster struct {
	client *fake.Clientset
	mutex  sync.Mutex
	wipes  []string
}

func newCluster() *cluster {
	c := &cluster{client: fake.NewClientset(), wipes: []string{}}
	// The tracker of the fake client knows no field selectors.
	c.client.PrependReactor("delete-collection", "resourceslices", c.wipe)
	return c
}

func (c *cluster) wipe(action clienttesting.Action) (bool, runtime.Object, error) {
	chosen := action.(clienttesting.DeleteCollectionAction).GetListRestrictions().Fields
	c.mutex.Lock()
	c.wipes = append(c.wipes, chosen.String())
	c.mutex.Unlock()
	// Inside a reaction the client is locked; its tracker is not.
	tracker, resource := c.client.Tracker(), groupVersion.WithResource("resourceslices")
	found, err := tracker.List(resource, groupVersion.WithKind("ResourceSlice"), "")
	if err != nil {
		return true, nil, err
	}
	for _, slice := range found.(*sliceList).Items {
		known := fields.Set{"spec.driver": slice.Spec.Driver, "spec.nodeName": nodeOf(&slice)}
		if chosen.Matches(known) {
			if err := tracker.Delete(resource, "", slice.Name); err != nil {
				return true, nil, err
			}
		}
	}
	return true, nil, nil
}

type objectArguments struct {
	Kind      string          `json:"kind"`
	Object    json.RawMessage `json:"object"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
}

// put creates an object, or takes the place of one.
func (o *oracle) put(a objectArguments) (wire.Answer, error) {
	tracker := o.cluster.client.Tracker()
	switch a.Kind {
	case "ResourceClaim":
		var claim resourceClaim
		if err := json.Unmarshal(a.Object, &claim); err != nil {
			return nil, err
		}
		resource := groupVersion.WithResource("resourceclaims")
		_ = tracker.Delete(resource, claim.Namespace, claim.Name)
		return nil, tracker.Create(resource, &claim, claim.Namespace)
	case "ResourceSlice":
		var slice resourceSlice
		if err := json.Unmarshal(a.Object, &slice); err != nil {
			return nil, err
		}
		resource := groupVersion.WithResource("resourceslices")
		_ = tracker.Delete(resource, "", slice.Name)
		return nil, tracker.Create(resource, &slice, "")
	}
	return nil, fmt.Errorf("no kind %q", a.Kind)
}

func (o *oracle) delete(a objectArguments) (wire.Answer, error) {
	api, ctx := resources(o.cluster.client), context.Background()
	switch a.Kind {
	case "ResourceClaim":
		return nil, api.ResourceClaims(a.Namespace).Delete(ctx, a.Name, metav1.DeleteOptions{})
	case "ResourceSlice":
		return nil, api.ResourceSlices().Delete(ctx, a.Name, metav1.DeleteOptions{})
	}
	return nil, fmt.Errorf("no kind %q", a.Kind)
}

func (o *oracle) slices(none) (wire.Answer, error) {
	found, err := resources(o.cluster.client).ResourceSlices().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, slice := range found.Items {
		names = append(names, slice.Name)
	}
	slices.Sort(names)
	o.cluster.mutex.Lock()
	defer o.cluster.mutex.Unlock()
	return wire.Answer{"slices": names, "wipes": slices.Clone(o.cluster.wipes)}, nil
}
