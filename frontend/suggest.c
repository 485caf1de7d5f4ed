/* Did-you-mean: the nearest candidate by edit distance, and a table of words that other systems use for the same thing.
 */
#include <string.h>

#include "frontend/fe_elab.h"

fe_suggestion fe_suggest(const char *word) {
    size_t n = strlen(word);
    unsigned limit = n <= 2 ? 1 : n <= 5 ? 2 : 3;
    return (fe_suggestion){word, NULL, limit + 1};
}

void fe_suggest_try(fe_suggestion *s, const char *candidate) {
    if (s->distance == 0) return;
    unsigned limit = s->distance - 1;
    unsigned d = mpc_edit_distance(s->word, candidate, limit);
    if (d > limit || d >= strlen(s->word)) return;
    s->best = candidate;
    s->distance = d;
}

/* Words of other tools, and what they are called here. */
static const char *const aliases[][2] = {
    {"False", "false"},
    {"True", "true"},
    {"filters", "channels"},
    {"out_channels", "channels"},
    {"units", "out"},
    {"features", "out"},
    {"out_features", "out"},
    {"kernel_size", "kernel"},
    {"strides", "stride"},
    {"padding", "pad"},
    {"dense", "linear"},
    {"fc", "linear"},
    {"Linear", "linear"},
    {"Conv2d", "conv2d"},
    {"conv", "conv2d"},
    {"Dropout", "dropout"},
    {"p", "rate"},
    {"dim", "axis"},
    {"keepdim", "keep"},
    {"keepdims", "keep"},
    {"use_bias", "bias"},
    {"group", "groups"},
    {"maxpool", "max_pool"},
    {"max_pool2d", "max_pool"},
    {"avgpool", "avg_pool"},
    {"batchnorm", "batch_norm"},
    {"batch_norm2d", "batch_norm"},
    {"layernorm", "layer_norm"},
    {"crossentropy", "cross_entropy"},
    {"nll_loss", "cross_entropy"},
    {"mse_loss", "mse"},
    {"l1_loss", "l1"},
    {"smooth_l1", "huber"},
    {"smooth_l1_loss", "huber"},
    {"huber_loss", "huber"},
    {"kl_div", "kl"},
    {"binary_cross_entropy", "bce_with_logits"},
    {"binary_cross_entropy_with_logits", "bce_with_logits"},
    {"bce", "bce_with_logits"},
    {"label_smoothing", "smooth"},
    {"reduction", "reduce"},
    {"epsilon", "eps"},
    {"relu6", "relu"},
    {"swish", "silu"},
    {"cat", "concat"},
    {"view", "reshape"},
    {"detach", "stop"},
    {"stop_gradient", "stop"},
    {"permute", "transpose"},
    {"select", "where"},
    {"is_causal", "causal"},
    {"emb", "embedding"},
    {"argsort", "argmax"},
    {"global_average_pool", "global_avg_pool"},
    {"lr_rate", "lr"},
    {"learning_rate", "lr"},
    {"wd", "weight_decay"},
    {"batch_size", "batch"},
    {"epochs", "length"},
    {"steps", "length"},
    {"num_epochs", "length"},
    {"accum", "accumulate"},
    {"gradient_accumulation", "accumulate"},
    {"grad_clip", "clip_norm"},
    {"clip", "clip_norm"},
    {"dtype", "precision"},
};

bool fe_is_module(const char *word) {
    static const char *const modules[] = {"nn", "F", "torch", "np", "jnp", "jax", "tf", "keras", "self", "math"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i], word) == 0) return true;
    return false;
}

const char *fe_alias(const char *word) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i][0], word) == 0) return aliases[i][1];
    return NULL;
}
