// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors
//
// Who owns the node at every moment. A line each 20 ms: seconds since boot,
// plugins connected to the runtime, listeners on sockets of DRA drivers, the
// kubelet's connections to them. A connection counts from its accept, so also
// a plugin that is only at the runtime's door. Our socket shows the name under
// which it was made, before it got its own.
//
//   observe once       one line on standard output
//   observe LOG STOP   lines into LOG until the file STOP is there
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int ends_with(const char* text, const char* end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static void sample(FILE* out) {
  int runtime = 0, listeners = 0, known = 0;
  char line[512], path[256];
  unsigned flags, state;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  FILE* sockets = fopen("/proc/net/unix", "r");
  while (sockets && fgets(line, sizeof line, sockets)) {
    if (sscanf(line, "%*s %*s %*s %x %*s %x %*s %255s", &flags, &state, path) != 3) continue;
    if (state == 3 && ends_with(path, "/nri/nri.sock")) ++runtime;
    if (!strstr(path, "/plugins/") || !(ends_with(path, "/dra.sock") || ends_with(path, "/.dra.new"))) continue;
    if (flags == 0x10000) ++listeners;
    if (state == 3) ++known;
  }
  if (sockets) fclose(sockets);
  fprintf(out, "%ld.%03ld %d %d %d\n", (long)now.tv_sec, now.tv_nsec / 1000000, runtime, listeners, known);
  fflush(out);
}

int main(int argc, char** argv) {
  const struct timespec pause = {0, 20000000};
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    sample(stdout);
    return 0;
  }
  if (argc != 3) return 2;
  unlink(argv[2]);
  FILE* log = fopen(argv[1], "w");
  if (!log) return 1;
  while (access(argv[2], F_OK) != 0) {
    sample(log);
    nanosleep(&pause, NULL);
  }
  return 0;
}
