package wire

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stats tells this process's CPU time in milliseconds and its memory, now and at most, in KiB.
func Stats() (Answer, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return nil, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	return Answer{
		"cpu_ms":       float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6,
		"rss_kib":      statusKiB(string(status), "VmRSS:"),
		"rss_peak_kib": statusKiB(string(status), "VmHWM:"),
	}, nil
}

func statusKiB(status, key string) int {
	_, rest, _ := strings.Cut(status, key)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	value, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	return value
}
