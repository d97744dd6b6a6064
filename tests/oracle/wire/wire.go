// Package wire speaks the line protocol of the oracle and the stub plugin: a JSON object a line in, one answer a line out.
//
// Commands run one after the other and are answered in order. A command with "async": name is answered at once and
// runs beside the others; `await` fetches its answer.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxLine is the longest command: a raw list of 4 MiB, written as hex, fits.
const maxLine = 64 << 20

// Answer is what a command says; `cmd`, `ok`, `us` and `t` are added when it is sent.
type Answer map[string]any

// Handler carries out one command, given as its whole JSON object.
type Handler func(raw json.RawMessage) (Answer, error)

// Handle makes a Handler of a function with typed arguments.
func Handle[T any](run func(T) (Answer, error)) Handler {
	return func(raw json.RawMessage) (Answer, error) {
		var arguments T
		decoder := json.NewDecoder(bytes.NewReader(raw))
		if err := decoder.Decode(&arguments); err != nil {
			return nil, fmt.Errorf("bad arguments: %w", err)
		}
		return run(arguments)
	}
}

// Now is CLOCK_MONOTONIC in nanoseconds: comparable between processes of one machine.
func Now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// Loop plays commands to handlers.
type Loop struct {
	// Handlers has one entry for each command.
	Handlers map[string]Handler
	// HangLimit bounds a command once another has panicked: what panicked may have kept a lock for good.
	HangLimit time.Duration
	// Answered is called when a command's answer is out, for the one that ends the process.
	Answered func()

	out      sync.Mutex
	encoder  *json.Encoder
	panicked atomic.Bool
	pending  map[string]chan Answer
}

// Run answers the commands of `in` on `out` until `in` ends.
func (l *Loop) Run(in io.Reader, out io.Writer) error {
	l.pending = map[string]chan Answer{}
	l.Handlers["await"] = Handle(l.await)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := l.Send(out, l.answer(bytes.Clone(lines.Bytes()))); err != nil {
			return err
		}
		if l.Answered != nil {
			l.Answered()
		}
	}
	return lines.Err()
}

// Send writes one line.
func (l *Loop) Send(out io.Writer, answer Answer) error {
	l.out.Lock()
	defer l.out.Unlock()
	if l.encoder == nil {
		l.encoder = json.NewEncoder(out)
		l.encoder.SetEscapeHTML(false)
	}
	return l.encoder.Encode(answer)
}

func (l *Loop) answer(line []byte) Answer {
	var head struct {
		Cmd   string `json:"cmd"`
		Async string `json:"async"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return failure("", fmt.Errorf("not a JSON object: %w", err))
	}
	handler, known := l.Handlers[head.Cmd]
	if !known {
		return failure(head.Cmd, fmt.Errorf("unknown command %q", head.Cmd))
	}
	finished := make(chan Answer, 1)
	go func() { finished <- l.run(head.Cmd, handler, line) }()
	if head.Async != "" {
		l.pending[head.Async] = finished
		return Answer{"cmd": head.Cmd, "ok": true, "async": head.Async, "t": Now()}
	}
	return l.wait(head.Cmd, finished)
}

func (l *Loop) wait(cmd string, finished <-chan Answer) Answer {
	if !l.panicked.Load() {
		return <-finished
	}
	select {
	case answer := <-finished:
		return answer
	case <-time.After(l.HangLimit):
		answer := failure(cmd, fmt.Errorf("no answer within %v: an earlier command panicked and may hold a lock", l.HangLimit))
		answer["hung"] = true
		return answer
	}
}

func (l *Loop) run(cmd string, handler Handler, line []byte) (answer Answer) {
	start := time.Now()
	defer func() {
		if reason := recover(); reason != nil {
			l.panicked.Store(true)
			answer = failure(cmd, nil)
			answer["panic"] = firstLine(fmt.Sprint(reason))
		}
		answer["us"] = time.Since(start).Microseconds()
	}()
	answer, err := handler(line)
	if err != nil {
		failed := failure(cmd, err)
		for key, value := range answer {
			failed[key] = value
		}
		return failed
	}
	if answer == nil {
		answer = Answer{}
	}
	answer["cmd"], answer["t"] = cmd, Now()
	if _, said := answer["ok"]; !said {
		answer["ok"] = true
	}
	return answer
}

type awaitArguments struct {
	Name      string `json:"name"`
	TimeoutMS int    `json:"timeout_ms"`
}

func (l *Loop) await(a awaitArguments) (Answer, error) {
	finished, known := l.pending[a.Name]
	if !known {
		return nil, fmt.Errorf("no command runs as %q", a.Name)
	}
	if a.TimeoutMS == 0 {
		a.TimeoutMS = 60_000
	}
	select {
	case answer := <-finished:
		delete(l.pending, a.Name)
		return Answer{"name": a.Name, "answer": answer}, nil
	case <-time.After(time.Duration(a.TimeoutMS) * time.Millisecond):
		return nil, fmt.Errorf("%q still runs after %d ms", a.Name, a.TimeoutMS)
	}
}

func failure(cmd string, err error) Answer {
	answer := Answer{"cmd": cmd, "ok": false, "t": Now()}
	if err != nil {
		answer["error"] = err.Error()
	}
	return answer
}

func firstLine(text string) string {
	for i, r := range text {
		if r == '\n' {
			return text[:i]
		}
	}
	return text
}
