/* oneDNN 2: memory descriptors and operation descriptors are structs of the caller, whose layout comes from the headers
 * present at build time. Without headers of version 2 this file is empty of them and a version 2 library counts as
 * absent. */
#include "runtime/cpu/onednn_api.h"

#if defined(__has_include)
#if __has_include(<oneapi/dnnl/dnnl_version.h>)
#include <oneapi/dnnl/dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#define HAVE_VERSION_2 1
#include <oneapi/dnnl/dnnl_types.h>
#endif
#endif
#endif

#ifdef HAVE_VERSION_2

static void *make_md(mpc_dnn *dnn, const mpc_dnn_tensor *t) {
    dnnl_memory_desc_t *md = mpc_arena_alloc(dnn->arena, sizeof *md);
    if (!md) return NULL;
    int type = mpc_dnn_type(t->format);
    int status = t->any ? dnn->api.dnnl_memory_desc_init_by_tag(md, t->rank, t->dims, type, MPC_DNNL_TAG_ANY)
                        : dnn->api.dnnl_memory_desc_init_by_strides(md, t->rank, t->dims, type, t->strides);
    return status == 0 ? md : NULL;
}

/* The library counts a dense kernel as dilation 0. */
static int describe_convolution(mpc_dnn *dnn, const mpc_dnn_desc *d, void *const mds[MPC_DNN_TENSORS],
                                dnnl_convolution_desc_t *out) {
    const mpc_dnn_api *api = &dnn->api;
    int64_t dilates[2] = {d->dilation[0] - 1, d->dilation[1] - 1};
    if (d->kind == MPC_DNN_CONV)
        return api->dnnl_dilated_convolution_forward_desc_init(
            out, MPC_DNNL_FORWARD_TRAINING, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC], mds[MPC_DNN_WEIGHTS],
            mds[MPC_DNN_BIAS], mds[MPC_DNN_DST], d->stride, dilates, d->pad_before, d->pad_after);
    if (d->kind == MPC_DNN_CONV_GRAD_INPUT)
        return api->dnnl_dilated_convolution_backward_data_desc_init(out, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC],
                                                                     mds[MPC_DNN_WEIGHTS], mds[MPC_DNN_DST], d->stride,
                                                                     dilates, d->pad_before, d->pad_after);
    return api->dnnl_dilated_convolution_backward_weights_desc_init(out, MPC_DNNL_CONVOLUTION_DIRECT, mds[MPC_DNN_SRC],
                                                                    mds[MPC_DNN_WEIGHTS], NULL, mds[MPC_DNN_DST],
                                                                    d->stride, dilates, d->pad_before, d->pad_after);
}

static int make_pd(mpc_dnn *dnn, const mpc_dnn_desc *desc, void *const mds[MPC_DNN_TENSORS], const void *attr,
                   void **pd) {
    const mpc_dnn_api *api = &dnn->api;
    dnnl_matmul_desc_t matmul;
    dnnl_convolution_desc_t convolution;
    const void *described = &matmul;
    int status;
    if (desc->kind == MPC_DNN_MATMUL) {
        status = api->dnnl_matmul_desc_init(&matmul, mds[MPC_DNN_SRC], mds[MPC_DNN_WEIGHTS], mds[MPC_DNN_BIAS],
                                            mds[MPC_DNN_DST]);
    } else {
        status = describe_convolution(dnn, desc, mds, &convolution);
        described = &convolution;
    }
    return status != 0 ? status : api->dnnl_primitive_desc_create(pd, described, attr, dnn->engine, NULL);
}

static const mpc_dnn_variant variant = {.make_md = make_md, .make_pd = make_pd};

const mpc_dnn_variant *mpc_dnn_v2(void) { return &variant; }

#else

const mpc_dnn_variant *mpc_dnn_v2(void) { return NULL; }

#endif
