/* Who does what in the CUDA kernel of a fusion group: width of packs, threads of a team, packs of a thread, blocks. All
 * of it depends on shapes only, never on the GPU, so results are the same bits everywhere. The thing to keep in mind: a
 * pack's accesses are aligned because the width divides the row and every address, not because anybody looks when the
 * kernel runs. */
#include "base/alloc.h"
#include "codegen/loop.h"

enum {
    THREADS = 256,
    MOST_TEAM = 512,
    MOST_PACKS = 8,
    MOST_WORDS = 64,     /* registers a thread spends on what it keeps */
    FEW_THREADS = 32768, /* below this, rows are shared by more threads instead of more packs */
    FLAT_BLOCKS = 4096,
    MOST_UNITS = 512,   /* partial results of a reduction over rows */
    UNIT_STEPS = 4,     /* rows, or packs, a thread adds before it writes a part, if that leaves... */
    ENOUGH_UNITS = 128, /* ... so many */
    ONE_UNIT = 16384,   /* elements */
    MOST_SHARED = 49152
};

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t at_least(int64_t a, int64_t least) { return a > least ? a : least; }
static uint32_t bytes_of(mpc_format format) { return (uint32_t)mpc_format_get(format)->bytes; }

static bool is_column_access(const mpc_loop *l, uint32_t i) {
    return !l->access[i].range && (l->access[i].atoms & l->space.columns) != 0 && mpc_loop_uses(l, i);
}
static bool is_column_store(const mpc_loop *l, uint32_t i) {
    return l->member[i].stored && !l->member[i].row_value && l->space.member[i].kind == MPC_MEMBER_EWISE;
}
static bool is_column_sum(const mpc_loop *l, uint32_t i) {
    return l->space.member[i].kind == MPC_MEMBER_OVER && l->space.member[i].result != 0;
}

/* --- width --- */

static bool is_aligned(const mpc_loop *l, uint32_t pointer, mpc_format format, uint32_t width) {
    uint32_t access = width * bytes_of(format) < 16 ? width * bytes_of(format) : 16;
    return l->args.pointers.data[pointer].byte_offset % access == 0;
}

static bool all_aligned(const mpc_loop *l, uint32_t width) {
    for (uint32_t i = 0; i < l->access_count; i++)
        if (is_column_access(l, i) && !is_aligned(l, l->access[i].pointer, l->access[i].format, width)) return false;
    for (uint32_t i = 0; i < l->count; i++)
        if (is_column_store(l, i) && !is_aligned(l, l->member[i].pointer, l->member[i].format, width)) return false;
    return true;
}

static void choose_width(mpc_loop *l) {
    const mpc_space *s = &l->space;
    uint32_t wanted = 4;
    for (uint32_t i = 0; i < l->access_count; i++)
        if (is_column_access(l, i) && bytes_of(l->access[i].format) <= 2) wanted = 8;
    for (uint32_t i = 0; i < l->count; i++)
        if (is_column_store(l, i) && bytes_of(l->member[i].format) <= 2) wanted = 8;
    uint32_t width = wanted;
    while (s->rows > 1 && s->cols % width != 0) width /= 2;
    if (width < wanted) l->team.note = "rows are no multiple of a 16-byte access";
    uint32_t by_rows = width;
    while (!all_aligned(l, width)) width /= 2;
    if (width < by_rows) l->team.note = "an operand starts where no 16-byte access may";
    l->team.width = width;
}

/* --- teams --- */

/* Words a thread keeps for each of its packs. */
static uint32_t words_of_pack(const mpc_loop *l) {
    uint32_t words = 0, width = l->team.width;
    for (uint32_t i = 0; i < l->access_count; i++)
        if (is_column_access(l, i)) words += (width * bytes_of(l->access[i].format) + 3) / 4;
    for (uint32_t i = 0; i < l->count; i++) {
        bool wide = mpc_cg_lanes(l->member[i].format) == 'l';
        if (l->member[i].saved || is_column_sum(l, i)) words += wide ? 2 * width : width;
    }
    return words;
}

static uint32_t power_up(int64_t n, uint32_t most) {
    uint32_t p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

/* Does a team have to see its row as a whole? */
static bool needs_whole_rows(const mpc_loop *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        mpc_member_kind kind = l->space.member[i].kind;
        if (kind == MPC_MEMBER_ROW || (kind == MPC_MEMBER_OVER && l->space.member[i].result == 0)) return true;
        if (m->row_value && m->stored && m->in_place && kind == MPC_MEMBER_EWISE) return true;
    }
    return false;
}

static void use_teams(mpc_loop_team *t, uint32_t team, int64_t rows) {
    t->team = team;
    t->threads = team > THREADS ? team : THREADS;
    if (team > 32) t->threads = team;
    while (t->threads > 32 && t->threads > team && rows * team <= t->threads / 2) t->threads /= 2;
}

/* false: a row and what is kept of it don't fit in the registers of MOST_TEAM threads. */
static bool choose_row_team(mpc_loop *l, int64_t packs) {
    mpc_loop_team *t = &l->team;
    int64_t words = words_of_pack(l);
    uint32_t team = 1;
    while (team < MOST_TEAM && (divide_up(packs, team) > MOST_PACKS || divide_up(packs, team) * words > MOST_WORDS))
        team *= 2;
    while (team < THREADS && team < packs && l->space.rows * team < FEW_THREADS) team *= 2;
    int64_t held = divide_up(packs, team);
    use_teams(t, team, l->space.rows);
    t->registers = held == 1 || (held <= MOST_PACKS && held * words <= MOST_WORDS);
    t->packs = (uint32_t)(t->registers ? held : 1);
    t->chunks = 1;
    return t->registers || l->repeats;
}

static void choose_flat(mpc_loop *l, int64_t packs) {
    mpc_loop_team *t = &l->team;
    *t = (mpc_loop_team){.width = t->width,
                         .team = THREADS,
                         .packs = 1,
                         .threads = THREADS,
                         .flat = true,
                         .exact = true,
                         .chunks = 1,
                         .note = t->note};
    t->row_blocks = divide_up(packs, THREADS);
    if (t->row_blocks > FLAT_BLOCKS) t->row_blocks = FLAT_BLOCKS;
    if (l->has_over) {
        t->row_blocks = divide_up(packs, THREADS * UNIT_STEPS);
        if (t->row_blocks > MOST_UNITS) t->row_blocks = MOST_UNITS;
        if (l->space.cols <= ONE_UNIT) t->row_blocks = 1;
    }
    l->units = l->has_over ? t->row_blocks : 1;
    l->per_unit = l->space.cols;
}

/* Shared memory in which the teams of a block put their column sums together, one member after the other. */
static uint32_t combine_bytes(const mpc_loop *l) {
    const mpc_loop_team *t = &l->team;
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t lane = mpc_cg_lanes(l->member[i].format) == 'l' ? 8 : 4;
        uint32_t own = t->threads * t->packs * t->width * lane;
        if (is_column_sum(l, i) && t->registers && t->threads > t->team && own > bytes) bytes = own;
    }
    return bytes;
}

static void choose_blocks(mpc_loop *l) {
    mpc_loop_team *t = &l->team;
    const mpc_space *s = &l->space;
    while (combine_bytes(l) > MOST_SHARED) t->threads /= 2;
    int64_t teams = t->threads / t->team;
    l->units = 1;
    l->per_unit = s->rows;
    if (!l->has_over) {
        t->row_blocks = divide_up(s->rows, teams);
        while (t->row_blocks * t->chunks > INT32_MAX / 2) t->row_blocks = divide_up(t->row_blocks, 2);
        return;
    }
    if (s->rows * s->cols > ONE_UNIT) {
        int64_t most = at_least(MOST_UNITS / t->chunks, 1);
        int64_t per = at_least(divide_up(s->rows, most), teams * UNIT_STEPS);
        if (divide_up(s->rows, per) * t->chunks < ENOUGH_UNITS)
            per = at_least(divide_up(s->rows, divide_up(ENOUGH_UNITS, t->chunks)), teams);
        l->per_unit = per;
        l->units = divide_up(s->rows, l->per_unit);
    }
    t->row_blocks = l->units;
}

bool mpc_cuda_loop_plan(mpc_loop *l) {
    const mpc_space *s = &l->space;
    mpc_loop_team *t = &l->team;
    *t = (mpc_loop_team){0};
    choose_width(l);
    int64_t packs = divide_up(s->cols, t->width);
    if (s->blocks) {
        choose_flat(l, packs);
        return true;
    }
    if (needs_whole_rows(l)) {
        if (!choose_row_team(l, packs)) return false;
    } else {
        use_teams(t, power_up(packs, 32), s->rows);
        t->registers = true;
        t->packs = 1;
        t->chunks = divide_up(packs, t->team);
    }
    t->exact = s->cols % t->width == 0;
    t->full = t->exact && t->registers && packs == t->chunks * t->team * t->packs;
    choose_blocks(l);
    return true;
}

/* --- the kernel --- */

uint32_t mpc_cuda_loop_kernel(mpc_loop *l) {
    mpc_str body = {0};
    uint32_t shared = 0;
    mpc_cuda_loop_print(l, &body, &shared);
    if (combine_bytes(l) > shared) shared = combine_bytes(l);
    if (body.failed || l->args.failed) mpc_cg_no_memory(l->cg);
    const mpc_cg_cuda_shape shape = {.threads = l->team.threads, .shared_bytes = shared, .note = l->team.note};
    uint32_t kernel = mpc_cg_add_cuda_kernel(l->cg, mpc_str_cstr(&body), &l->args, &shape);
    mpc_str_free(&body);
    return kernel;
}
