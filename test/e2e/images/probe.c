// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors
//
// The test container: tells which CPUs and memory nodes it may use, and tells
// it again whenever that changes.
//
//   probe            report and stay until SIGTERM
//   probe once       report and end with status 0
//   probe crash FILE the first time: report and end with status 1 after a
//                    moment, leaving FILE; with FILE there: report and stay
//   probe pages MIB  take so much in 2 MiB hugepages, touch it, tell where it
//                    lies and what the limit is; then report and stay
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char** environ;

static void on_end(int number) { (void)number; _exit(0); }

// Copies the value of `key` in /proc/self/status, or "?".
static void status_value(const char* key, char* out, size_t size) {
  char line[4096];
  snprintf(out, size, "?");
  FILE* file = fopen("/proc/self/status", "r");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    char* value = line + strlen(key) + strspn(line + strlen(key), ": \t");
    value[strcspn(value, "\n")] = 0;
    snprintf(out, size, "%s", value);
    break;
  }
  fclose(file);
}

// Copies the first line of a file, or "?".
static void file_value(const char* path, char* out, size_t size) {
  snprintf(out, size, "?");
  FILE* file = fopen(path, "r");
  if (!file) return;
  if (fgets(out, (int)size, file)) out[strcspn(out, "\n")] = 0;
  fclose(file);
}

static void report(char* line, size_t size) {
  char cpus[512], mems[128], effective[512];
  status_value("Cpus_allowed_list", cpus, sizeof cpus);
  status_value("Mems_allowed_list", mems, sizeof mems);
  file_value("/sys/fs/cgroup/cpuset.cpus.effective", effective, sizeof effective);
  snprintf(line, size, "cpus=%s effective=%s mems=%s", cpus, effective, mems);
}

// "pages=64 hugetlb.max=67108864 7f00… default file=/anon_hugepage … N1=32 …"
static void take_pages(size_t mib) {
  char limit[64], line[4096], address[32];
  size_t size = mib << 20;
  file_value("/sys/fs/cgroup/hugetlb.2MB.max", limit, sizeof limit);
  char* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (at == MAP_FAILED) {
    printf("pages=none hugetlb.max=%s\n", limit);
    return;
  }
  memset(at, 1, size);
  snprintf(address, sizeof address, "%lx ", (unsigned long)at);
  FILE* maps = fopen("/proc/self/numa_maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    if (strncmp(line, address, strlen(address)) != 0) continue;
    printf("pages=%zu hugetlb.max=%s %s", mib, limit, line);
  }
  if (maps) fclose(maps);
}

int main(int argc, char** argv) {
  char last[1300] = "", now[1300];
  const char* mode = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGTERM, on_end);
  signal(SIGINT, on_end);
  for (char** entry = environ; *entry; ++entry)
    if (strncmp(*entry, "DRA_", 4) == 0) printf("env %s\n", *entry);
  report(last, sizeof last);
  printf("%s\n", last);
  if (strcmp(mode, "once") == 0) return 0;
  if (strcmp(mode, "pages") == 0 && argc > 2) take_pages((size_t)atol(argv[2]));
  if (strcmp(mode, "crash") == 0 && argc > 2) {
    int mark = open(argv[2], O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (mark >= 0) {
      sleep(2);
      return 1;
    }
  }
  for (;;) {
    sleep(1);
    report(now, sizeof now);
    if (strcmp(now, last) == 0) continue;
    memcpy(last, now, sizeof last);
    printf("%s\n", last);
  }
}
