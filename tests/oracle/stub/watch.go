//go:build !before1_34 && !since1_35

package main

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watcher calls back whenever kubelet.sock is made.
type watcher struct {
	inner *fsnotify.Watcher
	done  chan struct{}
}

func watch(dir string, made func()) (*watcher, error) {
	inner, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := inner.Add(dir); err != nil {
		_ = inner.Close()
		return nil, err
	}
	w := &watcher{inner: inner, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for event := range inner.Events {
			if event.Has(fsnotify.Create) && filepath.Base(event.Name) == "kubelet.sock" {
				made()
			}
		}
	}()
	return w, nil
}

func (w *watcher) close() {
	_ = w.inner.Close()
	<-w.done
}
