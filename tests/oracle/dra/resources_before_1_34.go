//go:build before1_34 && !before1_32

package main

import (
	resourceapi "k8s.io/api/resource/v1beta1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/resource/v1beta1"
)

type (
	resourceClaim = resourceapi.ResourceClaim
	resourceSlice = resourceapi.ResourceSlice
	sliceList     = resourceapi.ResourceSliceList
)

var groupVersion = resourceapi.SchemeGroupVersion

func resources(client kubernetes.Interface) typed.ResourceV1beta1Interface {
	return client.ResourceV1beta1()
}

func nodeOf(slice *resourceSlice) string { return slice.Spec.NodeName }
