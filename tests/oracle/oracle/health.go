//go:build !before1_31

package main

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"simkubelet/oracle/wire"
)

type updatesArguments struct {
	TimeoutMS int `json:"timeout_ms"`
	Want      int `json:"want"`
}

// updates takes what the health channel holds, and waits only while fewer than `want` have come.
func (o *oracle) updates(a updatesArguments) (wire.Answer, error) {
	timeout := time.After(time.Duration(a.TimeoutMS) * time.Millisecond)
	channel := o.manager.Updates()
	seen := [][]string{}
	for {
		select {
		case update := <-channel:
			seen = append(seen, sorted(update.PodUIDs))
			continue
		default:
		}
		if len(seen) >= a.Want {
			return wire.Answer{"updates": seen}, nil
		}
		select {
		case update := <-channel:
			seen = append(seen, sorted(update.PodUIDs))
		case <-timeout:
			return wire.Answer{"updates": seen}, nil
		}
	}
}

type healthAnswer struct {
	ID     string `json:"id"`
	Health string `json:"health"`
}

type statusAnswer struct {
	Name      string         `json:"name"`
	Resources []healthAnswer `json:"resources"`
}

// allocatedStatus tells AllocatedResourcesStatus of each container that has one.
func (o *oracle) allocatedStatus(a podName) (wire.Answer, error) {
	pod, err := o.pods.find(a.Pod)
	if err != nil {
		return nil, err
	}
	status := &v1.PodStatus{}
	for _, container := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, v1.ContainerStatus{Name: container.Name})
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: container.Name})
	}
	updateAllocatedStatus(o.manager, pod, status)
	answers := map[string][]statusAnswer{}
	for _, container := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
		if container.AllocatedResourcesStatus != nil {
			answers[container.Name] = statusAnswers(container.AllocatedResourcesStatus)
		}
	}
	return wire.Answer{"status": answers}, nil
}

func statusAnswers(list []v1.ResourceStatus) []statusAnswer {
	answers := []statusAnswer{}
	for _, status := range list {
		answer := statusAnswer{Name: string(status.Name), Resources: []healthAnswer{}}
		for _, device := range status.Resources {
			answer.Resources = append(answer.Resources, healthAnswer{string(device.ResourceID), string(device.Health)})
		}
		slices.SortFunc(answer.Resources, func(a, b healthAnswer) int { return strings.Compare(a.ID, b.ID) })
		answers = append(answers, answer)
	}
	slices.SortFunc(answers, func(a, b statusAnswer) int { return strings.Compare(a.Name, b.Name) })
	return answers
}
