//go:build !before1_37

package main

import (
	_ "unsafe" // for the queue's own flush

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type (
	podInformer  = corev1.TypedPodInformer
	nodeInformer = corev1.TypedNodeInformer
)

func (o *oracle) queued(pod *v1.Pod) (*framework.QueuedPodInfo, bool) {
	return o.queue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
}

//go:linkname flushUnschedulable k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulableEntitiesLeftover
func flushUnschedulable(q *queue.PriorityQueue, logger klog.Logger)
