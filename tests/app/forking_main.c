// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a program that is loaded once and begins as often as it is asked to (forked_starts.py). Loading it, and
// LibTorch, takes longer than most of what tests have it do.
//
//   HEADSCOPE_FORK_REQUESTS=N      the descriptor of a socket of whole messages; without it the program runs as ever
//   HEADSCOPE_FORK_LIBRARY=FILE    a library that is loaded before the first request
//
// A request is strings that end with a zero byte: a folder, what is added to the environment as NAME=VALUE, an empty
// string, and the arguments. With it come the descriptors of stdout and stderr. A fork goes on from there into the
// program's own main; answered are its process number and, when it has ended, what wait says of it (an int each). If the
// loaded program is killed, so is the fork.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*forked_main)(int, char**, char**);

enum { kMostBytes = 1 << 16, kMostArguments = 1 << 12 };
static char request[kMostBytes];
static char* arguments_of_fork[kMostArguments + 1];

static void Fail(const char* what) {
  perror(what);
  _exit(70);
}

// The next string of the request.
static char* Next(char** at) {
  char* const text = *at;
  *at += strlen(text) + 1;
  return text;
}

// The request's size; 0: nobody asks any more.
static ssize_t Receive(int requests, int files[2]) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec part = {request, sizeof request - 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  const ssize_t size = recvmsg(requests, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return 0;
  const struct cmsghdr* const sent = CMSG_FIRSTHDR(&message);
  if (sent == NULL || sent->cmsg_len != CMSG_LEN(2 * sizeof(int)) || (message.msg_flags & MSG_TRUNC)) {
    fputs("forking_main: a request without two descriptors, or too long a one\n", stderr);
    _exit(70);
  }
  memcpy(files, CMSG_DATA(sent), 2 * sizeof(int));
  request[size] = '\0';
  return size;
}

static int GoOn(ssize_t size, const int files[2]) {
  if (dup2(files[0], STDOUT_FILENO) < 0 || dup2(files[1], STDERR_FILENO) < 0) Fail("forking_main: dup2");
  char* at = request;
  if (chdir(Next(&at)) != 0) Fail("forking_main: chdir");
  while (*at != '\0') {
    if (putenv(Next(&at)) != 0) Fail("forking_main: putenv");
  }
  ++at;
  int number = 0;
  while (at < request + size && number < kMostArguments) arguments_of_fork[number++] = Next(&at);
  extern char** environ;
  return forked_main(number, arguments_of_fork, environ);
}

static int Serve(int number, char** arguments, char** environment) {
  const char* const socket_number = getenv("HEADSCOPE_FORK_REQUESTS");
  if (socket_number == NULL) return forked_main(number, arguments, environment);
  const int requests = atoi(socket_number);
  const char* const library = getenv("HEADSCOPE_FORK_LIBRARY");
  if (library != NULL && dlopen(library, RTLD_LAZY | RTLD_LOCAL) == NULL) {
    fprintf(stderr, "forking_main: %s\n", dlerror());
    _exit(70);
  }
  // What a fork starts begins as ever.
  for (const char* const* name =
           (const char*[]){"LD_PRELOAD", "HEADSCOPE_FORK_REQUESTS", "HEADSCOPE_FORK_LIBRARY", NULL};
       *name != NULL; ++name)
    unsetenv(*name);
  while (1) {
    int files[2], status = 0;
    const ssize_t size = Receive(requests, files);
    if (size == 0) _exit(0);
    const pid_t self = getpid(), child = fork();
    if (child == 0) {
      if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("forking_main: prctl");
      if (getppid() != self) _exit(70);  // it was killed in between
      close(requests);
      return GoOn(size, files);
    }
    close(files[0]);
    close(files[1]);
    if (child < 0 || send(requests, &child, sizeof child, 0) < 0 || waitpid(child, &status, 0) < 0) Fail("forking_main");
    if (send(requests, &status, sizeof status, MSG_NOSIGNAL) < 0) _exit(0);  // whoever asked has gone
  }
}

int __libc_start_main(int (*main)(int, char**, char**), int number, char** arguments, void (*begin)(void),
                      void (*end)(void), void (*linker_end)(void), void* stack_end) {
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*) =
      (__typeof__(real))dlsym(RTLD_NEXT, "__libc_start_main");
  forked_main = main;
  return real(Serve, number, arguments, begin, end, linker_end, stack_end);
}
