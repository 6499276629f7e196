// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors
//
// Holds a pod's namespaces: waits for a signal to end, reaps orphans.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_end(int number) { (void)number; _exit(0); }
static void on_child(int number) { (void)number; while (waitpid(-1, NULL, WNOHANG) > 0) {} }

int main(void) {
  signal(SIGINT, on_end);
  signal(SIGTERM, on_end);
  signal(SIGCHLD, on_child);
  for (;;) pause();
}
