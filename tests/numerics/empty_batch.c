/* A batch without rows, and an axis without elements, through the ops that divide by a count (FC-122): shapes are kept,
 * gradients of parameters are exactly 0, running statistics stay what they were, the loss is 0 and counts nothing. */
#include <math.h>

#include "tests/check.h"
#include "tests/numerics/graph_run.h"

static void expect(const graph_run *r, const char *name, int64_t count, double want) {
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        mpc_tensor t = graph_output(r, d, name);
        CHECK_MSG(t.data != NULL && mpc_type_elements(&t.type) == count, "%s on device %d", name, d);
        for (int64_t i = 0; t.data != NULL && i < mpc_type_elements(&t.type); i++)
            CHECK_MSG(t.data[i] == want, "%s[%lld] on device %d is %g", name, (long long)i, d, t.data[i]);
    }
}

static void fill(graph_run *r, const char *name, int64_t count, double value) {
    for (int64_t i = 0; i < count; i++) graph_input(r, name)[i] = value;
}

static void batch_norm_leaves_its_statistics_alone(void) {
    graph_run *r = graph_open(
        "mpir 1\ngraph @g(%x: f32[0,5], %g: f32[5], %b: f32[5], %rm: f32[5], %rv: f32[5], %dy: f32[0,5]) {\n"
        "  %y, %m, %r, %nm, %nv = batch_norm(%x, %g, %b, %rm, %rv) : f32[0,5], f32[5], f32[5], f32[5], f32[5]\n"
        "  %dx, %dg, %db = batch_norm_grad(%x, %g, %m, %r, %dy) : f32[0,5], f32[5], f32[5]\n"
        "  return(\"y\": %y, \"nm\": %nm, \"nv\": %nv, \"dx\": %dx, \"dg\": %dg, \"db\": %db)\n}\n",
        "");
    if (r == NULL) return;
    fill(r, "g", 5, 1);
    fill(r, "rm", 5, 0.25);
    fill(r, "rv", 5, 3);
    CHECK(graph_step(r));
    expect(r, "y", 0, 0);
    expect(r, "dx", 0, 0);
    expect(r, "nm", 5, 0.25);
    expect(r, "nv", 5, 3);
    expect(r, "dg", 5, 0);
    expect(r, "db", 5, 0);
    graph_close(r);
}

static void parameters_of_rowwise_ops_have_gradient_zero(void) {
    graph_run *r = graph_open(
        "mpir 1\ngraph @g(%x: f32[0,5], %g: f32[5], %b: f32[5], %w: f32[5,3], %dy: f32[0,5], %dz: f32[0,3]) {\n"
        "  %y, %m, %r = layer_norm(%x, %g, %b) : f32[0,5], f32[0], f32[0]\n"
        "  %dx, %dg, %db = layer_norm_grad(%x, %g, %m, %r, %dy) : f32[0,5], f32[5], f32[5]\n"
        "  %u, %q = rms_norm(%x, %g) : f32[0,5], f32[0]\n"
        "  %du, %dq = rms_norm_grad(%x, %g, %q, %dy) : f32[0,5], f32[5]\n"
        "  %v, %gm, %gr = group_norm(%x, %g, %b) {groups=1} : f32[0,5], f32[0,1], f32[0,1]\n"
        "  %dv, %dgg, %dgb = group_norm_grad(%x, %g, %gm, %gr, %dy) {groups=1} : f32[0,5], f32[5], f32[5]\n"
        "  %z = matmul(%x, %w) : f32[0,3]\n  %dw = matmul(%x, %dz) {ta=true} : f32[5,3]\n"
        "  return(\"y\": %y, \"dg\": %dg, \"db\": %db, \"dq\": %dq, \"v\": %v, \"dgg\": %dgg, \"dgb\": %dgb, \"z\": "
        "%z, "
        "\"dw\": %dw)\n}\n",
        "");
    if (r == NULL) return;
    fill(r, "g", 5, 1);
    fill(r, "w", 15, 1);
    CHECK(graph_step(r));
    static const char *const empty[] = {"y", "v", "z"}, *const vectors[] = {"dg", "db", "dq", "dgg", "dgb"};
    for (int i = 0; i < 3; i++) expect(r, empty[i], 0, 0);
    for (int i = 0; i < 5; i++) expect(r, vectors[i], 5, 0);
    expect(r, "dw", 15, 0);
    graph_close(r);
}

static void an_axis_without_elements_is_no_crash(void) {
    graph_run *r = graph_open("mpir 1\ngraph @g(%x: f32[1,0,10], %g: f32[10], %b: f32[10]) {\n"
                              "  %y, %m, %r = layer_norm(%x, %g, %b) : f32[1,0,10], f32[1,0], f32[1,0]\n"
                              "  %v, %gm, %gr = group_norm(%x, %g, %b) {groups=2} : f32[1,0,10], f32[1,2], f32[1,2]\n"
                              "  return(\"y\": %y, \"v\": %v)\n}\n",
                              "");
    if (r == NULL) return;
    CHECK(graph_step(r));
    expect(r, "y", 0, 0);
    expect(r, "v", 0, 0);
    graph_close(r);
}

/* The loss of nothing is 0, and it says that nothing counted: the step is none. */
static void the_mean_of_nothing_is_zero_and_counts_nothing(void) {
    graph_run *r = graph_open("mpir 1\ngraph @g(%x: f32[0]) {\n  %l, %n = loss_mean(%x) : f32[], f32[]\n"
                              "  return(\"l\": %l, \"n\": %n)\n}\n",
                              "");
    if (r == NULL) return;
    CHECK(graph_step(r));
    expect(r, "l", 1, 0);
    expect(r, "n", 1, 0);
    graph_close(r);
}

int main(void) {
    batch_norm_leaves_its_statistics_alone();
    parameters_of_rowwise_ops_have_gradient_zero();
    an_axis_without_elements_is_no_crash();
    the_mean_of_nothing_is_zero_and_counts_nothing();
    return check_result();
}
