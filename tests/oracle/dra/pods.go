//go:build !before1_32

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"simkubelet/oracle/wire"
)

// podArguments have the pod as the kubelet has it, status included.
type podArguments struct {
	Pod       v1.Pod `json:"pod"`
	Container string `json:"container"`
}

func (a podArguments) container() (*v1.Container, error) {
	for i := range a.Pod.Spec.Containers {
		if a.Pod.Spec.Containers[i].Name == a.Container {
			return &a.Pod.Spec.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("the pod has no container %q", a.Container)
}

func (o *oracle) prepare(a podArguments) (wire.Answer, error) {
	return nil, o.manager.PrepareResources(context.Background(), &a.Pod)
}

func (o *oracle) unprepare(a podArguments) (wire.Answer, error) {
	return nil, o.manager.UnprepareResources(context.Background(), &a.Pod)
}

func (o *oracle) getResources(a podArguments) (wire.Answer, error) {
	container, err := a.container()
	if err != nil {
		return nil, err
	}
	info, err := o.manager.GetResources(&a.Pod, container)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, device := range info.CDIDevices {
		names = append(names, device.Name)
	}
	return wire.Answer{"cdi_devices": names}, nil
}

func (o *oracle) claimInfos(a podArguments) (wire.Answer, error) {
	container, err := a.container()
	if err != nil {
		return nil, err
	}
	infos, err := o.manager.GetContainerClaimInfos(&a.Pod, container)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"infos": infos}, nil
}

type uidArguments struct {
	UID string `json:"uid"`
}

func (o *oracle) mightNeedUnprepare(a uidArguments) (wire.Answer, error) {
	return wire.Answer{"value": o.manager.PodMightNeedToUnprepareResources(types.UID(a.UID))}, nil
}
