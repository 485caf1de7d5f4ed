/* Every gradient rule against central differences in f64, on graphs small enough to do it for each element, with a
 * random projection of the result; and the expanded backward graph against the composite one. */
#include "support.h"

typedef struct rule_case {
    const char *label, *text;
} rule_case;

#define P4 HEAD("%p: f32[4]")
#define P23 HEAD("%p: f32[2,3]")
#define UNARY(op, state) \
    { op, P4 PARAM(state, "4") "  %y = " op "(%" state ") : f32[4]\n" LOSS("4", "0") }
#define BROADCAST(op, b) \
    { \
        op " of [2,3] and [3]", \
            P23 PARAM("a", "2,3") PARAM(b, "3") "  %y = " op "(%a, %" b ") : f32[2,3]\n" LOSS("2,3", "0,1") \
    }
#define STRETCH(op) \
    { \
        op " of [2,1] and [1,3]", \
            P23 PARAM("posa", "2,1") PARAM("posb", "1,3") "  %y = " op \
                                                          "(%posa, %posb) : f32[2,3]\n" LOSS("2,3", "0,1") \
    }
#define REDUCE(op, attrs, shape, axes) \
    { \
        op " {" attrs "}", HEAD("%p: f32[" shape "]") PARAM("a", "2,3,4") "  %y = " op "(%a) {" attrs "} : f32[" shape \
                                                                          "]\n" LOSS(shape, axes) \
    }

static const rule_case elementwise[] = {
    UNARY("neg", "a"),
    UNARY("exp", "a"),
    UNARY("log", "posa"),
    UNARY("sqrt", "posa"),
    UNARY("rsqrt", "posa"),
    UNARY("abs", "a"),
    UNARY("tanh", "a"),
    UNARY("sigmoid", "a"),
    UNARY("relu", "a"),
    UNARY("erf", "a"),
    UNARY("cos", "a"),
    UNARY("sin", "a"),
    UNARY("gelu", "a"),
    BROADCAST("add", "b"),
    BROADCAST("sub", "b"),
    BROADCAST("mul", "b"),
    BROADCAST("div", "posb"),
    BROADCAST("maximum", "b"),
    BROADCAST("minimum", "b"),
    STRETCH("sub"),
    STRETCH("mul"),
    STRETCH("div"),
    STRETCH("pow"),
    {"a square", P4 PARAM("a", "4") "  %y = mul(%a, %a) : f32[4]\n" LOSS("4", "0")},
    {"a divided by itself", P4 PARAM("posa", "4") "  %y = div(%posa, %posa) : f32[4]\n" LOSS("4", "0")},
    {"where", HEAD("%c: bool[3], %p: f32[2,3]") PARAM("a", "2,3")
                  PARAM("b", "") "  %y = where(%c, %a, %b) : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"power 3", P4 PARAM("a", "4") "  %c = const() {value=3} : f32[]\n  %y = pow(%a, %c) : f32[4]\n" LOSS("4", "0")},
    {"power 2", P4 PARAM("a", "4") "  %c = const() {value=2} : f32[]\n  %y = pow(%a, %c) : f32[4]\n" LOSS("4", "0")},
    {"power -0.5",
     P4 PARAM("posa", "4") "  %c = const() {value=-0.5} : f32[]\n  %y = pow(%posa, %c) : f32[4]\n" LOSS("4", "0")},
    {"constant base",
     P4 PARAM("a", "4") "  %c = const() {value=3} : f32[]\n  %y = pow(%c, %a) : f32[4]\n" LOSS("4", "0")},
    {"mse", P23 PARAM("a", "2,3") PARAM("b", "2,3") "  %y = mse(%a, %b) : f32[2,3]\n" LOSS("2,3", "0,1")},
};

static const rule_case moving[] = {
    REDUCE("sum", "axes=[1]", "2,4", "0,1"),
    REDUCE("sum", "axes=[0,2] keep=true", "1,3,1", "0,1,2"),
    REDUCE("mean", "axes=[0,1]", "4", "0"),
    REDUCE("mean", "axes=[2] keep=true", "2,3,1", "0,1,2"),
    REDUCE("max", "axes=[2]", "2,3", "0,1"),
    REDUCE("min", "axes=[0,1] keep=true", "1,1,4", "0,1,2"),
    REDUCE("reshape", "shape=[6,4]", "6,4", "0,1"),
    REDUCE("transpose", "perm=[2,0,1]", "4,2,3", "0,1,2"),
    REDUCE("slice", "start=[0,1,1] stop=[2,3,3]", "2,2,2", "0,1,2"),
    REDUCE("pad", "before=[0,1,0] after=[1,0,2] value=3", "3,4,6", "0,1,2"),
    REDUCE("expand", "shape=[2,2,3,4]", "2,2,3,4", "0,1,2,3"),
    {"concat", HEAD("%p: f32[2,5]") PARAM("a", "2,2")
                   PARAM("b", "2,3") "  %y = concat(%a, %b) {axis=1} : f32[2,5]\n" LOSS("2,5", "0,1")},
    {"parts that tile",
     HEAD("%p: f32[2,4]") PARAM("a", "2,6") "  %u = slice(%a) {start=[0,2] stop=[2,6]} : f32[2,4]\n  %v = slice(%a) "
                                            "{start=[0,0] stop=[2,2]} : f32[2,2]\n"
                                            "  %w = concat(%v, %v) {axis=1} : f32[2,4]\n  %t = tanh(%u) : f32[2,4]\n  "
                                            "%y = mul(%t, %w) : f32[2,4]\n" LOSS("2,4", "0,1")},
    {"parts that overlap",
     HEAD("%p: f32[2,4]") PARAM("a", "2,6") "  %u = slice(%a) {start=[0,2] stop=[2,6]} : f32[2,4]\n  %v = slice(%a) "
                                            "{start=[0,0] stop=[2,4]} : f32[2,4]\n"
                                            "  %y = mul(%u, %v) : f32[2,4]\n" LOSS("2,4", "0,1")},
    {"parts with a gap",
     HEAD("%p: f32[2,2]") PARAM("a", "2,6") "  %u = slice(%a) {start=[0,4] stop=[2,6]} : f32[2,2]\n  %v = slice(%a) "
                                            "{start=[0,0] stop=[2,2]} : f32[2,2]\n"
                                            "  %y = mul(%u, %v) : f32[2,2]\n" LOSS("2,2", "0,1")},
    {"parts along different axes",
     HEAD("%p: f32[2,2]") PARAM(
         "a", "2,4") "  %u = slice(%a) {start=[0,2] stop=[2,4]} : f32[2,2]\n  %v = slice(%a) {start=[1,0] stop=[2,4]} "
                     ": f32[1,4]\n"
                     "  %w = reshape(%v) {shape=[2,2]} : f32[2,2]\n  %y = mul(%u, %w) : f32[2,2]\n" LOSS("2,2", "0,1")},
    {"parts that leave the end",
     HEAD("%p: f32[2,2]") PARAM("a", "2,6") "  %u = slice(%a) {start=[0,0] stop=[2,2]} : f32[2,2]\n  %v = slice(%a) "
                                            "{start=[0,2] stop=[2,4]} : f32[2,2]\n"
                                            "  %y = mul(%u, %v) : f32[2,2]\n" LOSS("2,2", "0,1")},
    {"parts along both axes",
     HEAD("%p: f32[1,2]") PARAM("a", "2,4") "  %u = slice(%a) {start=[0,0] stop=[1,2]} : f32[1,2]\n  %v = slice(%a) "
                                            "{start=[0,2] stop=[1,4]} : f32[1,2]\n"
                                            "  %y = mul(%u, %v) : f32[1,2]\n" LOSS("1,2", "0,1")},
    {"parts and the whole",
     HEAD("%p: f32[2,2]") PARAM("a", "2,4") "  %u = slice(%a) {start=[0,2] stop=[2,4]} : f32[2,2]\n  %v = slice(%a) "
                                            "{start=[0,0] stop=[2,2]} : f32[2,2]\n"
                                            "  %s = sum(%a) {axes=[1] keep=true} : f32[2,1]\n  %w = mul(%u, %s) : "
                                            "f32[2,2]\n  %y = mul(%v, %w) : f32[2,2]\n" LOSS("2,2", "0,1")},
    {"a slice of everything",
     HEAD("%p: f32[4]") PARAM("a", "4") "  %y = slice(%a) {start=[0] stop=[4]} : f32[4]\n" LOSS("4", "0")},
    {"concat of one value twice",
     HEAD("%p: f32[4]") PARAM("a", "2") "  %y = concat(%a, %a) {axis=0} : f32[4]\n" LOSS("4", "0")},
    {"expand of stretched axes",
     P23 PARAM("a", "1,3") "  %y = expand(%a) {shape=[2,3]} : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"gather", HEAD("%i: i32[2,4], %p: f32[2,4]")
                   PARAM("a", "2,3,4") "  %y = gather(%a, %i) {axis=1} : f32[2,4]\n" LOSS("2,4", "0,1")},
    {"embedding", HEAD("%i: i32[2,4], %p: f32[2,4,3]")
                      PARAM("t", "5,3") "  %y = embedding(%t, %i) : f32[2,4,3]\n" LOSS("2,4,3", "0,1,2")},
    {"dropout", HEAD("%seed: i64[], %step: i32[], %p: f32[4]")
                    PARAM("a", "4") "  %y = dropout(%a, %seed, %step) {rate=0.4 stream=7} : f32[4]\n" LOSS("4", "0")},
};

#define MATMUL(attrs, a, b) \
    { \
        "matmul [" a "] [" b "] {" attrs "}", \
            P23 PARAM("a", a) PARAM("b", b) "  %y = matmul(%a, %b) {" attrs "} : f32[2,3]\n" LOSS("2,3", "0,1") \
    }
#define BATCHED(attrs, a, b) \
    { \
        "matmul [" a "] [" b "] {" attrs "}", \
            HEAD("%p: f32[2,2,3]") PARAM("a", a) PARAM("b", b) "  %y = matmul(%a, %b) {" attrs \
                                                               "} : f32[2,2,3]\n" LOSS("2,2,3", "0,1,2") \
    }
#define CONV(attrs, x, w, y) \
    { \
        "conv2d {" attrs "}", \
            HEAD("%p: f32[" y "]") PARAM("x", x) PARAM("w", w) PARAM("b", "4") "  %y = conv2d(%x, %w, %b) {" attrs \
                                                                               "} : f32[" y "]\n" LOSS(y, "0,1,2,3") \
    }

static const rule_case products[] = {
    MATMUL("ta=false", "2,4", "4,3"),
    MATMUL("ta=true", "4,2", "4,3"),
    MATMUL("tb=true", "2,4", "3,4"),
    MATMUL("ta=true tb=true", "4,2", "3,4"),
    BATCHED("ta=false", "2,2,4", "2,4,3"),
    BATCHED("ta=true", "2,4,2", "2,4,3"),
    BATCHED("tb=true", "2,2,4", "2,3,4"),
    BATCHED("ta=true tb=true", "2,4,2", "2,3,4"),
    BATCHED("ta=false", "2,2,4", "4,3"),
    BATCHED("ta=true", "2,4,2", "4,3"),
    BATCHED("tb=true", "2,2,4", "3,4"),
    BATCHED("ta=true tb=true", "2,4,2", "3,4"),
    {"linear of rows", P23 PARAM("x", "2,4") PARAM("w", "4,3")
                           PARAM("b", "3") "  %y = linear(%x, %w, %b) : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"linear of rank 3 with relu",
     HEAD("%p: f32[2,2,3]") PARAM("x", "2,2,4") PARAM("w", "4,3")
         PARAM("b", "3") "  %y = linear(%x, %w, %b) {act=relu} : f32[2,2,3]\n" LOSS("2,2,3", "0,1,2")},
    {"linear of a vector", HEAD("%p: f32[3]") PARAM("x", "4") PARAM("w", "4,3")
                               PARAM("b", "3") "  %y = linear(%x, %w, %b) : f32[3]\n" LOSS("3", "0")},
    {"linear without bias",
     P23 PARAM("x", "2,4") PARAM("w", "4,3") "  %y = linear(%x, %w) : f32[2,3]\n" LOSS("2,3", "0,1")},
    CONV("stride=[1,1] pad=[1,1]", "1,4,3,2", "3,3,2,4", "1,4,3,4"),
    CONV("stride=[2,1] pad=[1,0] act=relu", "1,4,3,2", "3,2,2,4", "1,2,2,4"),
    CONV("dilation=[2,1] groups=2", "1,5,3,4", "2,2,2,4", "1,3,2,4"),
    {"max_pool",
     HEAD("%p: f32[1,2,2,2]") PARAM(
         "x", "1,4,3,2") "  %y = max_pool(%x) {kernel=[2,2] stride=[2,1]} : f32[1,2,2,2]\n" LOSS("1,2,2,2", "0,1,2,3")},
    {"avg_pool",
     HEAD("%p: f32[1,2,2,2]")
         PARAM("x", "1,4,3,2") "  %y = avg_pool(%x) {kernel=[3,2] stride=[2,2] pad=[1,1]} : f32[1,2,2,2]\n" LOSS(
             "1,2,2,2", "0,1,2,3")},
};

#define ATTENTION(attrs, inputs, mask) \
    { \
        "attention {" attrs "}" mask, \
            HEAD("%p: f32[2,3,2,4]" inputs) PARAM("q", "2,3,2,4") PARAM("k", "2,3,2,4") \
                PARAM("v", "2,3,2,4") "  %y, %lse = attention(%q, %k, %v" mask ") {" attrs \
                                      "} : f32[2,3,2,4], f32[2,2,3]\n" LOSS("2,3,2,4", "0,1,2,3") \
    }

static const rule_case networks[] = {
    {"softmax", P23 PARAM("a", "2,3") "  %y = softmax(%a) {axis=1} : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"softmax over the first axis",
     P23 PARAM("a", "2,3") "  %y = softmax(%a) {axis=0} : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"log_softmax", P23 PARAM("a", "2,3") "  %y = log_softmax(%a) {axis=1} : f32[2,3]\n" LOSS("2,3", "0,1")},
    {"cross entropy", HEAD("%i: i32[4], %p: f32[4]")
                          PARAM("a", "4,3") "  %y, %lse = cross_entropy(%a, %i) : f32[4], f32[4]\n" LOSS("4", "0")},
    {"log-sum-exp of cross entropy",
     HEAD("%i: i32[4], %p: f32[4]")
         PARAM("a", "4,3") "  %l, %y = cross_entropy(%a, %i) : f32[4], f32[4]\n" LOSS("4", "0")},
    {"both results of cross entropy",
     HEAD("%i: i32[4], %p: f32[4]") PARAM(
         "a", "4,3") "  %l, %s = cross_entropy(%a, %i) : f32[4], f32[4]\n  %y = mul(%l, %s) : f32[4]\n" LOSS("4", "0")},
    {"mean loss", HEAD("%p: f32[]") PARAM("a", "4") "  %y, %n = loss_mean(%a) : f32[], f32[]\n" LOSS("", "")},
    {"masked mean loss",
     HEAD("%m: bool[4], %p: f32[]") PARAM("a", "4") "  %y, %n = loss_mean(%a, %m) : f32[], f32[]\n" LOSS("", "")},
    {"layer norm",
     HEAD("%p: f32[2,2,3]") PARAM("x", "2,2,3") PARAM("g", "3") PARAM(
         "b", "3") "  %y, %m, %r = layer_norm(%x, %g, %b) : f32[2,2,3], f32[2,2], f32[2,2]\n" LOSS("2,2,3", "0,1,2")},
    {"statistics of layer norm",
     HEAD("%p: f32[2]") PARAM("x", "2,3") PARAM("g", "3") PARAM(
         "b",
         "3") "  %z, %m, %r = layer_norm(%x, %g, %b) : f32[2,3], f32[2], f32[2]\n  %s = sum(%z) {axes=[1]} : f32[2]\n"
              "  %t = mul(%m, %r) : f32[2]\n  %y = mul(%t, %s) : f32[2]\n" LOSS("2", "0")},
    {"batch norm", HEAD("%rm: f32[3], %rv: f32[3], %p: f32[2,2,3]") PARAM("x", "2,2,3") PARAM("g", "3")
                       PARAM("b", "3") "  %y, %m, %r, %rm1, %rv1 = batch_norm(%x, %g, %b, %rm, %rv) : f32[2,2,3], "
                                       "f32[3], f32[3], f32[3], f32[3]\n" LOSS("2,2,3", "0,1,2")},
    {"batch norm of rows", HEAD("%rm: f32[3], %rv: f32[3], %p: f32[4,3]") PARAM("x", "4,3") PARAM("g", "3")
                               PARAM("b", "3") "  %y, %m, %r, %rm1, %rv1 = batch_norm(%x, %g, %b, %rm, %rv) : "
                                               "f32[4,3], f32[3], f32[3], f32[3], f32[3]\n" LOSS("4,3", "0,1")},
    {"batch norm in evaluation, by its expansion",
     HEAD("%rm: f32[3], %posv: f32[3], %p: f32[2,3]") PARAM("x", "2,3") PARAM("g", "3")
         PARAM("b", "3") "  %y = batch_norm_eval(%x, %g, %b, %rm, %posv) : f32[2,3]\n" LOSS("2,3", "0,1")},
    ATTENTION("scale=0.5", "", ""),
    ATTENTION("causal=true scale=0.7", "", ""),
    ATTENTION("scale=0.5", ", %m: bool[2,1,1,3]", ", %m"),
    ATTENTION("causal=true scale=0.5", ", %m: bool[3,3]", ", %m"),
};

/* The loss `l` of [4], its operands' gradients asked for, below each kind of selection. */
#define SELECTED(label, params, loss) \
    {label " under where", HEAD("%m: bool[4], %p: f32[4]") params loss \
     "  %z = const() {value=0} : f32[]\n  %y = where(%m, %l, %z) : f32[4]\n" LOSS("4", "0")}, \
        {label " under maximum", HEAD("%m: bool[4], %p: f32[4]") params loss \
         "  %k = const() {value=0.75} : f32[]\n  %y = maximum(%l, %k) : f32[4]\n" LOSS("4", "0")}, \
        {label " under a clamp", HEAD("%m: bool[4], %p: f32[4]") params loss \
         "  %k = const() {value=0.25} : f32[]\n  %h = const() {value=1.25} : f32[]\n" \
         "  %w = maximum(%l, %k) : f32[4]\n  %y = minimum(%w, %h) : f32[4]\n" LOSS("4", "0")}, \
    { \
        label " under a mask", \
            HEAD("%m: bool[4], %p: f32[]") params loss "  %y, %n = loss_mean(%l, %m) : f32[], f32[]\n" LOSS("", "") \
    }
#define PAIR(op, b) SELECTED(op, PARAM("a", "4") PARAM(b, "4"), "  %l = " op "(%a, %" b ") : f32[4]\n")
#define SOFT(smooth) \
    SELECTED("soft labels " smooth, PARAM("a", "4,3") PARAM("posb", "4,3"), \
             "  %l, %s = soft_cross_entropy(%a, %posb) " smooth " : f32[4], f32[4]\n")

static const rule_case selected[] = {
    SOFT(""),        SOFT("{smooth=0.2}"), PAIR("kl", "posb"),           PAIR("mse", "b"),
    PAIR("l1", "b"), PAIR("huber", "b"),   PAIR("bce_with_logits", "b"),
};

/* Everything together: a transformer block with tied weights, dropout and masked targets; a residual convolution block.
 */
static const rule_case models[] = {
    {"transformer",
     HEAD("%i: i32[2,3], %t: i32[2,3], %m: bool[2,3], %seed: i64[], %step: i32[]") PARAM("e", "3,4") PARAM(
         "g", "4") PARAM("b", "4") PARAM("wq", "4,4") PARAM("wk", "4,4") PARAM("wv", "4,4") PARAM("bv", "4")
         PARAM("u", "4,6") PARAM("bu", "6") PARAM("d", "6,4") PARAM(
             "pos", "3,4") "  %r = range() : i32[3]\n"
                           "  %tok = embedding(%e, %i) : f32[2,3,4]\n  %at = embedding(%pos, %r) : f32[3,4]\n  %h = "
                           "add(%tok, %at) : f32[2,3,4]\n"
                           "  %n, %n1, %n2 = layer_norm(%h, %g, %b) : f32[2,3,4], f32[2,3], f32[2,3]\n"
                           "  %q = linear(%n, %wq) : f32[2,3,4]\n  %k = linear(%n, %wk) : f32[2,3,4]\n  %v = "
                           "linear(%n, %wv, %bv) : f32[2,3,4]\n"
                           "  %qh = reshape(%q) {shape=[2,3,2,2]} : f32[2,3,2,2]\n  %kh = reshape(%k) "
                           "{shape=[2,3,2,2]} : f32[2,3,2,2]\n"
                           "  %vh = reshape(%v) {shape=[2,3,2,2]} : f32[2,3,2,2]\n"
                           "  %a, %al = attention(%qh, %kh, %vh) {causal=true scale=0.7} : f32[2,3,2,2], f32[2,2,3]\n"
                           "  %af = reshape(%a) {shape=[2,3,4]} : f32[2,3,4]\n"
                           "  %ad = dropout(%af, %seed, %step) {rate=0.3 stream=11} : f32[2,3,4]\n  %h2 = add(%h, %ad) "
                           ": f32[2,3,4]\n"
                           "  %f = linear(%h2, %u, %bu) : f32[2,3,6]\n  %fg = gelu(%f) : f32[2,3,6]\n  %fd = "
                           "linear(%fg, %d) : f32[2,3,4]\n"
                           "  %h3 = add(%h2, %fd) : f32[2,3,4]\n  %z = matmul(%h3, %e) {tb=true} : f32[2,3,3]\n"
                           "  %l, %lse = cross_entropy(%z, %t) : f32[2,3], f32[2,3]\n  %loss, %count = loss_mean(%l, "
                           "%m) : f32[], f32[]\n"
                           "  return(\"loss\": %loss)\n}\n"},
    {"residual block",
     HEAD("%x: f32[2,4,4,2], %t: f32[2,3], %rm: f32[3], %rv: f32[3]") PARAM("w", "3,3,2,3") PARAM("g", "3")
         PARAM("b", "3") PARAM("s", "1,1,2,3") "  %c = conv2d(%x, %w) {pad=[1,1]} : f32[2,4,4,3]\n"
                                               "  %n, %m, %r, %rm1, %rv1 = batch_norm(%c, %g, %b, %rm, %rv) : "
                                               "f32[2,4,4,3], f32[3], f32[3], f32[3], f32[3]\n"
                                               "  %k = conv2d(%x, %s) : f32[2,4,4,3]\n  %a = add(%n, %k) : "
                                               "f32[2,4,4,3]\n  %h = relu(%a) : f32[2,4,4,3]\n"
                                               "  %p = max_pool(%h) {kernel=[2,2] stride=[2,2]} : f32[2,2,2,3]\n  %y = "
                                               "mean(%p) {axes=[1,2]} : f32[2,3]\n"
                                               "  %e = mse(%y, %t) : f32[2,3]\n  %loss, %count = loss_mean(%e) : "
                                               "f32[], f32[]\n  return(\"loss\": %loss)\n}\n"},
};

static void check_all(const rule_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fixture *f = open_fixture();
        check_gradients(f, cases[i].label, cases[i].text);
        close_fixture(f);
    }
}

int main(void) {
    check_all(elementwise, sizeof elementwise / sizeof *elementwise);
    check_all(moving, sizeof moving / sizeof *moving);
    check_all(products, sizeof products / sizeof *products);
    check_all(networks, sizeof networks / sizeof *networks);
    check_all(selected, sizeof selected / sizeof *selected);
    check_all(models, sizeof models / sizeof *models);
    return check_result();
}
