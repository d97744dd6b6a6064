//go:build !before1_36

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type (
	eventRecorder = events.EventRecorderLogger
	tried         = *framework.QueuedPodInfo
)

func podOf(pod tried) *v1.Pod { return pod.Pod }
