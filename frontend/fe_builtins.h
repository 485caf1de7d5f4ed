/* The functions behind the table of builtins.c, by family. */
#ifndef MPC_FRONTEND_FE_BUILTINS_H
#define MPC_FRONTEND_FE_BUILTINS_H

#include "frontend/fe_elab.h"

/* builtin_math.c */
fe_value fe_fn_binary(fe_call *c);
fe_value fe_fn_unary(fe_call *c);
fe_value fe_fn_reciprocal(fe_call *c);
fe_value fe_fn_gelu(fe_call *c);
fe_value fe_fn_elu(fe_call *c);
fe_value fe_fn_silu(fe_call *c);
fe_value fe_fn_softplus(fe_call *c);
fe_value fe_fn_square(fe_call *c);
fe_value fe_fn_leaky_relu(fe_call *c);
fe_value fe_fn_clamp(fe_call *c);
fe_value fe_fn_where(fe_call *c);
fe_value fe_fn_stop(fe_call *c);
fe_value fe_fn_cast(fe_call *c);
fe_value fe_fn_softmax(fe_call *c);
fe_value fe_fn_l2_normalize(fe_call *c);
fe_value fe_fn_matmul(fe_call *c);

/* builtin_data.c */
fe_value fe_fn_standardize(fe_call *c);
fe_value fe_fn_random_flip(fe_call *c);
fe_value fe_fn_random_crop(fe_call *c);

/* builtin_axes.c */
fe_value fe_fn_einsum(fe_call *c);
fe_value fe_fn_rearrange(fe_call *c);
fe_value fe_fn_reduce_axes(fe_call *c);

/* builtin_reduce.c */
fe_value fe_fn_reduce(fe_call *c);
fe_value fe_fn_var(fe_call *c);
fe_value fe_fn_truth(fe_call *c);
fe_value fe_fn_argmax(fe_call *c);
fe_value fe_fn_cumsum(fe_call *c);
fe_value fe_fn_top_k(fe_call *c);
/* `op` on x along the axis that argument number `argument` names, the last one by default. */
fe_value fe_along_axis(fe_call *c, mpc_op_id op, fe_value x, uint32_t argument);

/* builtin_move.c */
fe_value fe_fn_pad(fe_call *c);
fe_value fe_fn_roll(fe_call *c);
fe_value fe_fn_flip(fe_call *c);
fe_value fe_fn_upsample(fe_call *c);

/* builtin_shape.c */
fe_value fe_fn_reshape(fe_call *c);
fe_value fe_fn_flatten(fe_call *c);
fe_value fe_fn_transpose(fe_call *c);
fe_value fe_fn_split(fe_call *c);
fe_value fe_fn_unstack(fe_call *c);
fe_value fe_fn_concat(fe_call *c);
fe_value fe_fn_stack(fe_call *c);
fe_value fe_fn_expand(fe_call *c);
fe_value fe_fn_gather(fe_call *c);
fe_value fe_fn_one_hot(fe_call *c);
fe_value fe_fn_range(fe_call *c);
fe_value fe_fn_filled(fe_call *c);
fe_value fe_fn_shape(fe_call *c);
fe_value fe_fn_len(fe_call *c);
fe_value fe_fn_int(fe_call *c);
fe_value fe_fn_float(fe_call *c);

/* builtin_layer.c */
fe_value fe_fn_normal(fe_call *c);
fe_value fe_fn_uniform(fe_call *c);
fe_value fe_fn_constant(fe_call *c);
fe_value fe_fn_named_init(fe_call *c);
fe_value fe_fn_orthogonal(fe_call *c);
fe_value fe_fn_param(fe_call *c);
fe_value fe_fn_linear(fe_call *c);
fe_value fe_fn_embedding(fe_call *c);
/* At least 1, or E017 at argument `i`. */
bool fe_want_positive(fe_call *c, uint32_t i, int64_t value, const char *what);

/* builtin_image.c */
fe_value fe_fn_conv2d(fe_call *c);
fe_value fe_fn_conv1d(fe_call *c);
fe_value fe_fn_conv2d_transpose(fe_call *c);
fe_value fe_fn_pool(fe_call *c);
fe_value fe_fn_global_pool(fe_call *c);

/* builtin_norm.c */
fe_value fe_fn_layer_norm(fe_call *c);
fe_value fe_fn_rms_norm(fe_call *c);
fe_value fe_fn_group_norm(fe_call *c);
fe_value fe_fn_batch_norm(fe_call *c);
fe_value fe_fn_attention(fe_call *c);

/* builtin_recurrent.c */
fe_value fe_fn_lstm(fe_call *c);
fe_value fe_fn_gru(fe_call *c);

/* builtin_random.c */
fe_value fe_fn_dropout(fe_call *c);
fe_value fe_fn_drop_path(fe_call *c);
fe_value fe_fn_random_uniform(fe_call *c);
fe_value fe_fn_random_normal(fe_call *c);
fe_value fe_fn_bernoulli(fe_call *c);

/* builtin_loss.c */
fe_value fe_fn_cross_entropy(fe_call *c);
fe_value fe_fn_perplexity(fe_call *c);
fe_value fe_fn_accuracy(fe_call *c);
fe_value fe_fn_top_k_accuracy(fe_call *c);
fe_value fe_fn_binary_accuracy(fe_call *c);
fe_value fe_fn_pairwise_loss(fe_call *c);

#endif
