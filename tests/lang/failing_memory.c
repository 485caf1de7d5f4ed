/* The n-th allocation fails, for every n: no crash, no leak that the sanitizers would see, and an error or a null
 * result. */
#include <stdlib.h>

#include "base/alloc.h"
#include "frontend/frontend.h"
#include "tests/check.h"
#include "tests/lang/support.h"

static const char text[] = "const k = 2 * 2\n"
                           "block body(x: [n, c], out: int = k) {\n"
                           "    y = relu(linear(x, out) as fc)\n"
                           "    return batch_norm(y) as norm, out\n"
                           "}\n"
                           "model m(x: f32[batch, 6], digit: i32[batch]) {\n"
                           "    h, w = body(x)\n"
                           "    tied = embedding(_, 5, k)\n"
                           "    repeat i, s in [1, 2] { h = h * s + mean(tied(digit)) }\n"
                           "    if training { h = dropout(h, 0.5) }\n"
                           "    e = einsum(\"n (a b), m c a b -> n m\", h, ones([3, 2, 2, 2]), b = 2)\n"
                           "    r = reduce(\"... 1 c -> c ...\", rearrange(\"n c -> n 1 c\", e), op = max)\n"
                           "    h = h + mean(r)\n"
                           "    @bf16 g = concat([h, h[:, 0:1]], axis = -1)\n"
                           "    logits = linear(reshape(g, [batch, w + 1]), 10) as head\n"
                           "    loss ce = cross_entropy(logits, digit) where digit >= 0 weight 0.5 trains \"head.*\"\n"
                           "    loss size = mean(g) trains \"body.**\", \"tied.*\"\n"
                           "    metric acc = accuracy(logits, digit)\n"
                           "    output p = softmax(logits)\n"
                           "}\n"
                           "data {\n"
                           "    train = csv(\"a.csv\")\n"
                           "    valid = split(train, 0.1, seed = 1)\n"
                           "    input x = concat([columns[0:5] - mean(columns[0:5] * range(5)), expand(columns[0], "
                           "[3])[1:] * zeros([1, 1])[0]])[0:6]\n"
                           "    input digit = columns[6] - 1\n"
                           "}\n"
                           "params { \"**.bias\" { decay = 0 } }\n"
                           "policy { softmax = f32\n"
                           " linear = bf16 }\n"
                           "train { optimizer = adamw(lr = 1e-3)\n"
                           " monitor = valid.acc }\n";
static const char with_std[] =
    "use lora from \"std/lora.mpg\"\nuse \"std/unet.mpg\"\n"
    "model m(x: f32[batch, 4, 4, 2], y: f32[batch, 3]) {\n"
    "    h = lora(mean(unet(x, [4, 8], groups = 2), axis = [1, 2]), 3)\n    loss fit = mse(h, y)\n"
    "    output h = h\n}\n";
static const char wrong[] =
    "model m(x: f32[batch, 6], y: f32[batch, 5]) {\n    z = x + y\n    a = foo(x)\n    b = mse(x, y)\n}\n";

static void ignore(void *user, const mpc_diag *d) {
    (void)d;
    ++*(unsigned *)user;
}

/* true when it went through */
static bool once(const char *source, uint64_t fail) {
    unsigned count = 0;
    mpc_sink sink = {ignore, &count};
    mpc_alloc_fail_after(fail);
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = sources ? mpc_context_create(&sink, sources) : NULL;
    uint32_t file = ctx ? mpc_sources_add(sources, "m.mpg", source, strlen(source)) : 0;
    const mpc_override set = {false, "optimizer.lr", "0.1", false};
    mpc_model *m = file ? mpc_model_load(ctx, file, &set, 1) : NULL;
    bool ok = m != NULL;
    for (int phase = 0; m && phase < 3; phase++) {
        mpc_graph *g = mpc_model_elaborate(m, (mpc_phase)phase, 4, NULL);
        ok = ok && g;
        mpc_graph_destroy(g);
    }
    mpc_str out = {0};
    if (m) mpc_model_print_config(m, true, &out);
    bool text_failed = out.failed; /* said by the builder's flag, not by a diagnostic */
    mpc_str_free(&out);
    mpc_alloc_fail_after(0);
    CHECK_MSG(ok || count > 0 || !file, "fail %llu: silent", (unsigned long long)fail);
    mpc_model_destroy(m);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return ok && !text_failed;
}

/* Layout and description of a text, which has comments; true when both went through. */
static bool lay_out(uint64_t fail) {
    static const char commented[] =
        "## width\nconst k = 2 # two\nblock f(x) { return g(g(x, 1), # one\n 2) } ## block\n"
        "model m(x: f32[batch, 4]) { output f(x) }\ntrain { schedule = cosine(warmup = 10) }\n";
    unsigned count = 0;
    mpc_sink sink = {ignore, &count};
    mpc_alloc_fail_after(fail);
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = sources ? mpc_context_create(&sink, sources) : NULL;
    uint32_t file = ctx ? mpc_sources_add(sources, "m.mpg", commented, strlen(commented)) : 0;
    mpc_str out = {0}, about = {0};
    bool ok = file && mpc_format_file(ctx, file, true, &out) && mpc_describe_file(ctx, file, &about);
    mpc_alloc_fail_after(0);
    CHECK_MSG(ok || count > 0 || !file, "layout, fail %llu: silent", (unsigned long long)fail);
    mpc_str_free(&out);
    mpc_str_free(&about);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return ok;
}

int main(void) {
    uint64_t start = mpc_alloc_count();
    CHECK(lay_out(0));
    uint64_t layouts = mpc_alloc_count() - start;
    for (uint64_t n = 1; n <= layouts; n++) CHECK_MSG(!lay_out(n), "layout, allocation %llu", (unsigned long long)n);
    CHECK(once(text, 0));
    CHECK(!once(wrong, 0));
    uint64_t before = mpc_alloc_count();
    once(text, 0);
    uint64_t total = mpc_alloc_count() - before;
    uint64_t step = total > 3000 ? total / 3000 : 1;
    for (uint64_t n = 1; n <= total; n += n < 2000 ? 1 : step)
        CHECK_MSG(!once(text, n), "allocation %llu of %llu", (unsigned long long)n, (unsigned long long)total);
    before = mpc_alloc_count();
    CHECK(once(with_std, 0));
    total = mpc_alloc_count() - before;
    for (uint64_t n = 1; n <= total; n++)
        CHECK_MSG(!once(with_std, n), "with std, allocation %llu of %llu", (unsigned long long)n,
                  (unsigned long long)total);
    before = mpc_alloc_count();
    once(wrong, 0);
    total = mpc_alloc_count() - before;
    for (uint64_t n = 1; n <= total; n++) once(wrong, n);
    return check_result();
}
