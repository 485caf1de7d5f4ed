/* oneDNN 3: memory descriptors are the library's objects, primitive descriptors are made in one call. Declared here and
 * in onednn_symbols.def from the library's documented C interface, so no header of version 3 is needed. */
#include "runtime/cpu/onednn_api.h"

static void *make_md(mpc_dnn *dnn, const mpc_dnn_tensor *t) {
    void *md = NULL;
    int type = mpc_dnn_type(t->format);
    int status = t->any ? dnn->api.dnnl_memory_desc_create_with_tag(&md, t->rank, t->dims, type, MPC_DNNL_TAG_ANY)
                        : dnn->api.dnnl_memory_desc_create_with_strides(&md, t->rank, t->dims, type, t->strides);
    return status == 0 ? mpc_dnn_keep(dnn, MPC_DNN_OBJECT_MD, md) : NULL;
}

static int make_pd(mpc_dnn *dnn, const mpc_dnn_desc *d, void *const mds[MPC_DNN_TENSORS], const void *attr, void **pd) {
    const mpc_dnn_api *api = &dnn->api;
    int64_t dilates[2] = {d->dilation[0] - 1, d->dilation[1] - 1};
    if (d->kind == MPC_DNN_MATMUL)
        return api->dnnl_matmul_primitive_desc_create(pd, dnn->engine, mds[MPC_DNN_SRC], mds[MPC_DNN_WEIGHTS],
                                                      mds[MPC_DNN_BIAS], mds[MPC_DNN_DST], attr);
    if (d->kind == MPC_DNN_CONV)
        return api->dnnl_convolution_forward_primitive_desc_create(
            pd, dnn->engine, MPC_DNNL_FORWARD_TRAINING, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC],
            mds[MPC_DNN_WEIGHTS], mds[MPC_DNN_BIAS], mds[MPC_DNN_DST], d->stride, dilates, d->pad_before, d->pad_after,
            attr);
    if (d->kind == MPC_DNN_CONV_GRAD_INPUT)
        return api->dnnl_convolution_backward_data_primitive_desc_create(
            pd, dnn->engine, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC], mds[MPC_DNN_WEIGHTS], mds[MPC_DNN_DST],
            d->stride, dilates, d->pad_before, d->pad_after, NULL, attr);
    return api->dnnl_convolution_backward_weights_primitive_desc_create(
        pd, dnn->engine, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC], mds[MPC_DNN_WEIGHTS], NULL, mds[MPC_DNN_DST],
        d->stride, dilates, d->pad_before, d->pad_after, NULL, attr);
}

const mpc_dnn_variant mpc_dnn_v3 = {.make_md = make_md, .make_pd = make_pd};
