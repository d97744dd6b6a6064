//go:build !before1_34

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/resource/v1"
)

type (
	resourceClaim = resourceapi.ResourceClaim
	resourceSlice = resourceapi.ResourceSlice
	sliceList     = resourceapi.ResourceSliceList
)

var groupVersion = resourceapi.SchemeGroupVersion

func resources(client kubernetes.Interface) typed.ResourceV1Interface { return client.ResourceV1() }

func nodeOf(slice *resourceSlice) string {
	if slice.Spec.NodeName == nil {
		return ""
	}
	return *slice.Spec.NodeName
}
