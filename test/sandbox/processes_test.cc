// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "node.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::seconds;

TEST(Processes, RunWhereTheyAreTold) {
  const Result<CpuSet> ours = allowed_cpus(::getpid());
  ASSERT_TRUE(ours.ok()) << ours.error().text;
  if (ours->size() < 2) GTEST_SKIP() << "needs two CPUs, this process may use " << ours->to_string();
  Result<Folder> folder = Folder::make("dracpu-proc-");
  ASSERT_TRUE(folder.ok());
  const CpuSet first{ours->first()->get()};
  const CpuSet last{ours->last()->get()};
  pid_t pid = 0;
  {
    Processes processes({"/bin/sleep", "1000"}, folder->path().filename().string(), folder->path() / "log");
    const std::string id = "0123456789abcdef";
    const Result<pid_t> started = processes.start(id, first.to_string(), {});
    ASSERT_TRUE(started.ok()) << started.error().text << " by " << processes.way();
    pid = *started;
    EXPECT_EQ(allowed_cpus(pid).value(), first) << processes.way();
    const Status moved = processes.set_cpus(id, last.to_string());
    ASSERT_TRUE(moved.ok()) << moved.error().text;
    EXPECT_EQ(allowed_cpus(pid).value(), last);
    processes.stop(id);
    EXPECT_FALSE(processes.set_cpus(id, first.to_string()).ok());
  }
  EXPECT_FALSE(allowed_cpus(pid).ok()) << "the process must be gone";
}

TEST(Child, TellsHowItEnded) {
  Result<Folder> folder = Folder::make("dracpu-child-");
  ASSERT_TRUE(folder.ok());
  Result<Child> child = Child::start({"/bin/sh", "-c", "echo out; exit 3"}, {}, folder->path() / "log");
  ASSERT_TRUE(child.ok()) << child.error().text;
  EXPECT_EQ(child->wait(seconds(10)), std::optional<int>(3));
  EXPECT_FALSE(child->running());
  Result<Child> missing = Child::start({"/nonexistent"}, {}, folder->path() / "log");
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->wait(seconds(10)), std::optional<int>(127));
}

TEST(Folder, GoesAway) {
  std::filesystem::path path;
  {
    Result<Folder> folder = Folder::make("dracpu-folder-");
    ASSERT_TRUE(folder.ok());
    path = folder->path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dracpu::sandbox
