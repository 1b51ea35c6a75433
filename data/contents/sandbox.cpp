// SPDX-License-Identifier: Apache-2.0
#include "contents/sandbox.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace headscope::data {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS SECCOMP_RET_KILL
#endif

// `grace`: what the hard limit lies above the soft one.
void Lower(__rlimit_resource resource, uint64_t value, uint64_t grace = 0) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) throw std::runtime_error("a limit cannot be read");
  const rlimit both{std::min<rlim_t>(value, now.rlim_max), std::min<rlim_t>(value + grace, now.rlim_max)};
  if (setrlimit(resource, &both) != 0) throw std::runtime_error("a limit cannot be set");
}

void CloseOthers() {
  constexpr unsigned kFirst = 3;
#ifdef SYS_close_range
  if (syscall(SYS_close_range, kFirst, ~0U, 0) == 0) return;
#endif
  rlimit most{};
  getrlimit(RLIMIT_NOFILE, &most);
  const rlim_t end = std::min<rlim_t>(most.rlim_cur, 65536);
  for (rlim_t descriptor = kFirst; descriptor < end; ++descriptor) close(static_cast<int>(descriptor));
}

using Program = std::vector<sock_filter>;

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kKill = SECCOMP_RET_KILL_PROCESS;

void Load(Program& program, size_t offset) {
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
}

void Return(Program& program, uint32_t verdict) {
  program.push_back(BPF_STMT(BPF_RET | BPF_K, verdict));
}

void Allow(Program& program, long call) {
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
  Return(program, kAllow);
}

// Of the low half of an argument; little-endian, as all kernels are that this is compiled for.
constexpr size_t Argument(size_t number) {
  return offsetof(seccomp_data, args) + number * sizeof(uint64_t);
}

// Memory that is nobody's file, and never code.
void AllowPlainMemory(Program& program, long call, bool mapping) {
  Program checks;
  Load(checks, Argument(2));
  checks.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_EXEC));
  checks.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
  Return(checks, kKill);
  if (mapping) {
    Load(checks, Argument(3));
    checks.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0));
    Return(checks, kKill);
  }
  Return(checks, kAllow);
  program.push_back(
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, static_cast<uint8_t>(checks.size())));
  program.insert(program.end(), checks.begin(), checks.end());
}

Program Filter() {
  Program program;
  Load(program, offsetof(seccomp_data, arch));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  Return(program, kKill);
  Load(program, offsetof(seccomp_data, nr));
  for (const long call :
       {SYS_pread64,
        SYS_read,
        SYS_write,
        SYS_fstat,
        SYS_lseek,
        SYS_brk,
        SYS_munmap,
        SYS_mremap,
        SYS_madvise,
        SYS_futex,
        SYS_exit,
        SYS_exit_group,
        SYS_rt_sigreturn,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_clock_gettime,
        SYS_restart_syscall,
        SYS_sched_yield,
        SYS_getrandom
#ifdef SYS_newfstatat
        ,
        SYS_newfstatat  // fstat() of newer C libraries; with no descriptor of a folder and no rights it finds nothing
#endif
#ifdef SYS_gettimeofday
        ,
        SYS_gettimeofday
#endif
#ifdef SYS_time
        ,
        SYS_time
#endif
       }) {
    Allow(program, call);
  }
  AllowPlainMemory(program, SYS_mmap, true);
  AllowPlainMemory(program, SYS_mprotect, false);
  Return(program, kKill);
  return program;
}

}  // namespace

bool EnterSandbox(const SandboxLimits& limits) {
  CloseOthers();
  Lower(RLIMIT_AS, limits.memory_bytes);
  Lower(RLIMIT_CPU, limits.seconds, 1);  // the soft limit's signal tells what happened, the hard one's does not
  Lower(RLIMIT_CORE, 0);
  Lower(RLIMIT_FSIZE, 0);
  Lower(RLIMIT_NOFILE, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || kArchitecture == 0) return false;
  Program program = Filter();
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

}  // namespace headscope::data
