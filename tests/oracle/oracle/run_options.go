package main

import (
	"cmp"
	"slices"

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"simkubelet/oracle/wire"
)

func (o *oracle) runOptions(a containerName) (wire.Answer, error) {
	pod, container, err := o.findContainer(a)
	if err != nil {
		return nil, err
	}
	options, err := runOptions(o.manager, pod, container)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"options": optionsAnswer(options)}, nil
}

// optionsAnswer orders the lists: the manager builds them from maps.
func optionsAnswer(options *devicemanager.DeviceRunContainerOptions) wire.Answer {
	if options == nil {
		return nil
	}
	envs, annotations := map[string]string{}, map[string]string{}
	for _, env := range options.Envs {
		envs[env.Name] = env.Value
	}
	for _, annotation := range options.Annotations {
		annotations[annotation.Name] = annotation.Value
	}
	cdi := []string{}
	for _, device := range options.CDIDevices {
		cdi = append(cdi, device.Name)
	}
	slices.Sort(cdi)
	return wire.Answer{
		"envs":        envs,
		"annotations": annotations,
		"cdi_devices": cdi,
		"mounts":      mountAnswers(options),
		"devices":     hostDeviceAnswers(options),
	}
}

type mountAnswer struct {
	Name          string `json:"name"`
	ContainerPath string `json:"container_path"`
	HostPath      string `json:"host_path"`
	ReadOnly      bool   `json:"read_only"`
}

func mountAnswers(options *devicemanager.DeviceRunContainerOptions) []mountAnswer {
	mounts := []mountAnswer{}
	for _, m := range options.Mounts {
		mounts = append(mounts, mountAnswer{m.Name, m.ContainerPath, m.HostPath, m.ReadOnly})
	}
	slices.SortFunc(mounts, func(a, b mountAnswer) int { return cmp.Compare(a.ContainerPath, b.ContainerPath) })
	return mounts
}

type hostDeviceAnswer struct {
	ContainerPath string `json:"container_path"`
	HostPath      string `json:"host_path"`
	Permissions   string `json:"permissions"`
}

func hostDeviceAnswers(options *devicemanager.DeviceRunContainerOptions) []hostDeviceAnswer {
	devices := []hostDeviceAnswer{}
	for _, d := range options.Devices {
		devices = append(devices, hostDeviceAnswer{d.PathInContainer, d.PathOnHost, d.Permissions})
	}
	slices.SortFunc(devices, func(a, b hostDeviceAnswer) int { return cmp.Compare(a.ContainerPath, b.ContainerPath) })
	return devices
}
