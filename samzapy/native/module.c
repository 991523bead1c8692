/* The module samzapy.native.extension. Its parts are described in extension.pyi. */

#include "native.h"

static PyMethodDef functions[] = {
    {"bind_librdkafka", bind_librdkafka, METH_O, "Set the addresses of librdkafka's functions, by name."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, name, type);
    Py_DECREF(type);
    return failed;
}

static int execute(PyObject *module)
{
    if (entries_names() < 0)
        return -1;
    if (add_type(module, "FetchQueue", &fetch_queue_spec) < 0)
        return -1;
    if (add_type(module, "ProduceQueue", &produce_queue_spec) < 0)
        return -1;
    if (add_type(module, "NativeEntries", &entries_spec) < 0)
        return -1;
    PyObject *functions = librdkafka_functions();
    int failed = PyModule_AddObjectRef(module, "LIBRDKAFKA_FUNCTIONS", functions);
    Py_XDECREF(functions);
    if (failed < 0)
        return -1;
    return PyModule_AddStringConstant(module, "SOURCES", SAMZAPY_SOURCES);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "extension",
    .m_doc = "The parts of samzapy that are compiled.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_extension(void)
{
    return PyModuleDef_Init(&definition);
}
