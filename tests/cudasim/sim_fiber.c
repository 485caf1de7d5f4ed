/* Switching between stacks. Only callee-saved registers are kept, no signal mask: a switch costs nanoseconds, and a
 * kernel makes millions. AddressSanitizer is told of each switch. Abandoned fibers are reset, never unwound: kernels
 * own nothing. */
#include "sim_fiber.h"
#include "sanitized.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096, STAGGER_BYTES = 320 };

#if defined(__x86_64__)
void cudasim_switch(void **save, void *to);
__asm__(".text\n"
        ".globl cudasim_switch\n"
        ".hidden cudasim_switch\n"
        ".type cudasim_switch,@function\n"
        "cudasim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size cudasim_switch,.-cudasim_switch\n");

/* Six registers, the entry as return address, and one word that aligns the stack as a call does. */
static void prepare(sim_fiber *f, void (*entry)(void)) {
    uint64_t *top = (uint64_t *)(void *)(f->stack + f->size);
    memset(top - 8, 0, 8 * sizeof *top);
    memcpy(top - 2, &entry, sizeof entry);
    f->sp = top - 8;
}
static void change(sim_fiber *from, sim_fiber *to) { cudasim_switch(&from->sp, to->sp); }
#else
#include <ucontext.h>

static void prepare(sim_fiber *f, void (*entry)(void)) {
    if (!f->sp) f->sp = calloc(1, sizeof(ucontext_t));
    ucontext_t *context = f->sp;
    if (!context) abort();
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = f->size;
    context->uc_link = NULL;
    makecontext(context, entry, 0);
}
static void change(sim_fiber *from, sim_fiber *to) {
    static ucontext_t caller;
    if (!from->sp) from->sp = &caller;
    swapcontext(from->sp, to->sp);
}
#endif

/* The stack that the last switch left, for the fiber that starts. */
static sim_fiber *left;

void sim_fiber_switch(sim_fiber *from, sim_fiber *to) {
    left = from;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
#endif
    change(from, to);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

void sim_fiber_started(void) {
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (!left->size) left->stack = (char *)(uintptr_t)bottom, left->size = size;
#endif
}

void sim_fiber_reset(sim_fiber *f, void (*entry)(void)) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(f->stack, f->size);
    f->fake = NULL;
#endif
    prepare(f, entry);
}

sim_fiber *sim_fiber_new(void (*entry)(void)) {
    sim_fiber *f = calloc(1, sizeof *f);
    char *raw = f ? mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                  : MAP_FAILED;
    if (raw == MAP_FAILED) {
        free(f);
        return NULL;
    }
    mprotect(raw, GUARD_BYTES, PROT_NONE);
    f->stack = raw + GUARD_BYTES;
    /* Tops at the same place of a page would share a few lines of the cache among all lanes of a warp. */
    static size_t count;
    f->size = STACK_BYTES - count++ % 64 * STAGGER_BYTES;
    prepare(f, entry);
    return f;
}
