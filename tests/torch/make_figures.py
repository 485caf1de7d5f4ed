"""Makes figures.json: values and gradients of composites, computed by PyTorch in f64 on small seeded inputs.

    python make_figures.py            writes figures.json beside this file; needs torch and numpy

Tensors are in the layouts of the language (images [n, h, w, c], attention [batch, time, heads, size]); each function brings them into
PyTorch's, and since that is differentiable too the gradients come out in the language's layouts. Each case is the model of the same name in
models/: `w` weighs the result, the loss is sum(y * w), so the gradient of `w` is the value. Inputs are multiples of 1/64, exact in f32."""
import json
import os
import zlib

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Inputs:
    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.states, self.inputs, self.next = {}, {}, {}

    def param(self, name, *shape, low=-2.0, high=2.0):
        values = np.round(self.rng.uniform(low, high, shape) * 64) / 64
        self.states[name] = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        return self.states[name]

    def stat(self, name, *shape, low=-1.0, high=1.0):
        values = np.round(self.rng.uniform(low, high, shape) * 64) / 64
        self.states[name] = torch.tensor(values, dtype=torch.float64)
        return self.states[name]

    def ids(self, name, high, *shape):
        self.inputs[name] = torch.tensor(self.rng.integers(0, high, shape))
        return self.inputs[name]


def image(x):
    return x.permute(0, 3, 1, 2)


def pixels(x):
    return x.permute(0, 2, 3, 1)


def heads_first(x):
    return x.permute(0, 2, 1, 3)


# --- attention ---

@case
def attention_causal(i):
    q, k, v = (heads_first(i.param(n, 2, 5, 3, 4)) for n in "qkv")
    return heads_first(F.scaled_dot_product_attention(q, k, v, is_causal=True))


@case
def attention_masked(i):
    q, k, v = i.param("q", 2, 4, 2, 4), i.param("k", 2, 6, 2, 4), i.param("v", 2, 6, 2, 4)
    seen = i.ids("seen", 2, 2, 6)
    seen[:, 0] = 1
    mask = (seen > 0)[:, None, None, :]
    return heads_first(F.scaled_dot_product_attention(*(heads_first(t) for t in (q, k, v)), attn_mask=mask))


@case
def attention_grouped(i):
    q, k, v = i.param("q", 2, 5, 6, 4), i.param("k", 2, 5, 2, 4), i.param("v", 2, 5, 2, 4)
    q, k, v = (heads_first(t) for t in (q, k, v))
    return heads_first(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


@case
def attention_window(i):
    q, k, v = (heads_first(i.param(n, 1, 7, 2, 4)) for n in "qkv")
    at = torch.arange(7)
    back = at[:, None] - at[None, :]
    return heads_first(F.scaled_dot_product_attention(q, k, v, attn_mask=(back >= 0) & (back < 3)))


# --- norms ---

@case
def layer_norm(i):
    x, weight, bias = i.param("x", 3, 4, 7), i.param("norm.weight", 7), i.param("norm.bias", 7)
    return F.layer_norm(x, (7,), weight, bias, eps=1e-5)


@case
def rms_norm(i):
    x, weight = i.param("x", 3, 4, 7), i.param("norm.weight", 7)
    return F.rms_norm(x, (7,), weight, eps=1e-6)


@case
def group_norm(i):
    x, weight, bias = i.param("x", 2, 3, 4, 6), i.param("norm.weight", 6), i.param("norm.bias", 6)
    return pixels(F.group_norm(image(x), 3, weight, bias, eps=1e-5))


def batch_norm_of(i, training):
    own = i.param if training else i.stat
    x, weight, bias = i.param("x", 3, 2, 4, 5), own("norm.weight", 5), own("norm.bias", 5)
    mean, var = i.stat("norm.running_mean", 5), i.stat("norm.running_var", 5, low=0.5, high=2)
    new_mean, new_var = mean.clone(), var.clone()
    y = pixels(F.batch_norm(image(x), new_mean, new_var, weight, bias, training=training, momentum=0.25, eps=1e-5))
    if training:
        i.next["norm.running_mean"], i.next["norm.running_var"] = new_mean, new_var
    return y


@case
def batch_norm(i):
    return batch_norm_of(i, True)


@case
def batch_norm_frozen(i):
    return batch_norm_of(i, False)


# --- losses ---

@case
def cross_entropy(i):
    return F.cross_entropy(i.param("x", 6, 9, low=-4, high=4), i.ids("label", 9, 6), reduction="none")


@case
def cross_entropy_smooth(i):
    return F.cross_entropy(i.param("x", 6, 9, low=-4, high=4), i.ids("label", 9, 6), reduction="none", label_smoothing=0.125)


def soft(i, smooth):
    x, t = i.param("x", 5, 7, low=-4, high=4), i.param("t", 5, 7, low=0, high=1)
    return F.cross_entropy(x, t, reduction="none", label_smoothing=smooth)


@case
def cross_entropy_soft(i):
    return soft(i, 0)


@case
def cross_entropy_soft_smooth(i):
    return soft(i, 0.25)


@case
def huber(i):
    return F.huber_loss(i.param("x", 4, 9), i.param("t", 4, 9), reduction="none", delta=0.75)


@case
def l1(i):
    return F.l1_loss(i.param("x", 4, 9), i.param("t", 4, 9), reduction="none")


@case
def bce_with_logits(i):
    x, t = i.param("x", 4, 9, low=-12, high=12), i.param("t", 4, 9, low=0, high=1)
    return F.binary_cross_entropy_with_logits(x, t, reduction="none")


@case
def kl(i):
    x, q = i.param("x", 4, 6), i.param("q", 4, 6)
    return F.kl_div(F.log_softmax(x, -1), F.softmax(q, -1), reduction="none")


# --- pools, convolutions ---

@case
def max_pool(i):
    return pixels(F.max_pool2d(image(i.param("x", 2, 5, 6, 2)), 3, stride=2, padding=1))


@case
def avg_pool(i):
    return pixels(F.avg_pool2d(image(i.param("x", 2, 5, 6, 2)), 3, stride=2, padding=1, count_include_pad=False))


@case
def conv2d_dilated(i):
    x, weight, bias = i.param("x", 2, 7, 6, 3), i.param("conv.weight", 3, 3, 3, 2), i.param("conv.bias", 2)
    return pixels(F.conv2d(image(x), weight.permute(3, 2, 0, 1), bias, padding=2, dilation=2))


@case
def conv2d_grouped(i):
    x, weight, bias = i.param("x", 2, 6, 7, 4), i.param("conv.weight", 3, 2, 2, 6), i.param("conv.bias", 6)
    return pixels(F.conv2d(image(x), weight.permute(3, 2, 0, 1), bias, stride=(2, 1), padding=(1, 0), groups=2))


@case
def conv2d_transpose(i):
    x, weight, bias = i.param("x", 2, 3, 4, 3), i.param("conv.weight", 3, 3, 2, 3), i.param("conv.bias", 2)
    return pixels(F.conv_transpose2d(image(x), weight.permute(3, 2, 0, 1), bias, stride=2, padding=1))


# --- recurrent ---

def recurrent(i, module, gates, **more):
    x, size, both = i.param("x", 2, 5, 3), 4, {"low": -1, "high": 1}
    weight, hidden = i.param("cell.weight_input", 3, gates * size, **both), i.param("cell.weight_hidden", size, gates * size, **both)
    bias, other = i.param("cell.bias", gates * size, **both), torch.zeros(gates * size, dtype=torch.float64)
    if module is torch.nn.GRU:  # its hidden bias counts only inside the brackets of n
        other = torch.cat([other[:2 * size], i.param("cell.bias_hidden", size, **both)])
    names = {"weight_ih_l0": weight.T, "weight_hh_l0": hidden.T, "bias_ih_l0": bias, "bias_hh_l0": other}
    net = module(3, size, batch_first=True, dtype=torch.float64)
    return torch.func.functional_call(net, names, (x, *more.values()))


@case
def lstm(i):
    return recurrent(i, torch.nn.LSTM, 4)[0]


@case
def gru(i):
    return recurrent(i, torch.nn.GRU, 3)[0]


@case
def lstm_states(i):
    first = tuple(i.param(n, 2, 4, low=-1, high=1)[None] for n in ("h0", "c0"))
    y, (h, c) = recurrent(i, torch.nn.LSTM, 4, first=first)
    return torch.cat([y.sum(1), h[0], c[0]], -1)


@case
def gru_states(i):
    y, h = recurrent(i, torch.nn.GRU, 3, first=i.param("h0", 2, 4, low=-1, high=1)[None])
    return torch.cat([y.sum(1), h[0]], -1)


# --- elementwise, reductions ---

@case
def gelu_tanh(i):
    return F.gelu(i.param("x", 3, 11, low=-4, high=4), approximate="tanh")


@case
def softplus(i):
    return F.softplus(i.param("x", 3, 11, low=-12, high=12))


@case
def logsumexp(i):
    return torch.logsumexp(i.param("x", 4, 7, low=-6, high=6), 1)


@case
def variance(i):
    return torch.var(i.param("x", 4, 7), 1, unbiased=False)


@case
def cumsum(i):
    return torch.cumsum(i.param("x", 4, 7), 1)


def flat(t):
    return {"shape": list(t.shape), "values": t.detach().reshape(-1).tolist()}


def figure(name, function):
    i = Inputs(name)
    y = function(i)
    w = i.param("w", *y.shape)
    (y * w).sum().backward()
    grads = {n: t.grad for n, t in i.states.items() if t.grad is not None}
    return {"states": {n: flat(t) for n, t in i.states.items()}, "inputs": {n: flat(t) for n, t in i.inputs.items()},
            "grads": {n: flat(t) for n, t in grads.items()}, "next": {n: flat(t) for n, t in i.next.items()}}


def main():
    figures = {name: figure(name, function) for name, function in CASES.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(f)}" for name, f in figures.items()]
    with open(os.path.join(HERE, "figures.json"), "w") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
