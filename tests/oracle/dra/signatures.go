//go:build !before1_32

package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// The methods below are those of one Kubernetes or another; a method that is asked for by its signature needs no build
// tag.

func (o *oracle) validatePlugin(driver, endpoint string, services []string) error {
	switch handler := any(o.plugins).(type) {
	case interface {
		ValidatePlugin(string, string, []string) error
	}:
		return handler.ValidatePlugin(driver, endpoint, services)
	case interface {
		ValidatePlugin(context.Context, string, string, []string) error
	}:
		return handler.ValidatePlugin(context.Background(), driver, endpoint, services)
	}
	panic(unknown(o.plugins, "ValidatePlugin"))
}

func (o *oracle) registerPlugin(driver, endpoint string, services []string) error {
	switch handler := any(o.plugins).(type) {
	case interface {
		RegisterPlugin(string, string, []string, *time.Duration) error
	}:
		return handler.RegisterPlugin(driver, endpoint, services, nil)
	case interface {
		RegisterPlugin(context.Context, string, string, []string, *time.Duration) error
	}:
		return handler.RegisterPlugin(context.Background(), driver, endpoint, services, nil)
	}
	panic(unknown(o.plugins, "RegisterPlugin"))
}

func (o *oracle) deregisterPlugin(driver, endpoint string) {
	switch handler := any(o.plugins).(type) {
	case interface{ DeRegisterPlugin(string) }:
		handler.DeRegisterPlugin(driver)
	case interface{ DeRegisterPlugin(string, string) }:
		handler.DeRegisterPlugin(driver, endpoint)
	case interface {
		DeRegisterPlugin(context.Context, string, string)
	}:
		handler.DeRegisterPlugin(context.Background(), driver, endpoint)
	default:
		panic(unknown(o.plugins, "DeRegisterPlugin"))
	}
}

func runWatcher(ctx context.Context, watcher any) {
	switch manager := watcher.(type) {
	case interface {
		Run(config.SourcesReady, <-chan struct{})
	}:
		manager.Run(ready{}, ctx.Done())
	case interface {
		Run(context.Context, config.SourcesReady, <-chan struct{})
	}:
		manager.Run(ctx, ready{}, ctx.Done())
	default:
		panic(unknown(watcher, "Run"))
	}
}

func (o *oracle) updateStatus(pod *v1.Pod, status *v1.PodStatus) {
	switch manager := any(o.manager).(type) {
	case interface {
		UpdateAllocatedResourcesStatus(*v1.Pod, *v1.PodStatus)
	}:
		manager.UpdateAllocatedResourcesStatus(pod, status)
	case interface {
		UpdateAllocatedResourcesStatus(klog.Logger, *v1.Pod, *v1.PodStatus)
	}:
		manager.UpdateAllocatedResourcesStatus(klog.Background(), pod, status)
	default:
		panic(unknown(o.manager, "UpdateAllocatedResourcesStatus"))
	}
}

func unknown(owner any, method string) string {
	return fmt.Sprintf("%T has no known %s in this Kubernetes", owner, method)
}
