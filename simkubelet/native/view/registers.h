/* What differs between architectures: the registers of a call. */
#ifndef SIMKUBELET_REGISTERS_H
#define SIMKUBELET_REGISTERS_H

#include <elf.h>
#include <linux/audit.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

typedef unsigned long long word;

struct registers {
    struct user_regs_struct words;
    int number; /* of the call, where it is no register */
};

#if defined(__x86_64__)

#define ARCHITECTURE AUDIT_ARCH_X86_64
#define NUMBER(r) ((r)->words.orig_rax)
#define RESULT(r) ((r)->words.rax)

static inline word *argument(struct registers *r, int index)
{
    void *arguments[] = {&r->words.rdi, &r->words.rsi, &r->words.rdx, &r->words.r10, &r->words.r8, &r->words.r9};
    return arguments[index];
}

/* Lets the next instruction be the call again. */
static inline void rewind_call(struct registers *r)
{
    r->words.rip -= 2;
    r->words.rax = r->words.orig_rax;
    r->words.orig_rax = -1;
}

#elif defined(__aarch64__)

#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define NUMBER(r) ((r)->number)
#define RESULT(r) ((r)->words.regs[0])

static inline word *argument(struct registers *r, int index) { return &r->words.regs[index]; }

static inline void rewind_call(struct registers *r)
{
    r->words.pc -= 4;
    r->number = -1;
}

#else
#error "only x86-64 and arm64 are known"
#endif

static inline long exchange_registers(bool is_set, pid_t thread, struct registers *r)
{
    struct iovec words = {&r->words, sizeof r->words}, number = {&r->number, sizeof r->number};
#ifdef __aarch64__
    if (ptrace(is_set ? PTRACE_SETREGSET : PTRACE_GETREGSET, thread, NT_ARM_SYSTEM_CALL, &number))
        return -1;
#endif
    (void)number;
    return ptrace(is_set ? PTRACE_SETREGSET : PTRACE_GETREGSET, thread, NT_PRSTATUS, &words);
}

#endif
